"""Prometheus as a source of usage: kube-state-metrics for allocations, DCGM for device activity.

`source` sends at most four queries a window (`queries`) through a session that checks every
response (`session`), and parses the responses (`samples`) into the clock (`clock`), pods (`pods`),
nodes (`nodes`) and devices (`devices`, `energy`).
"""

from metering.adapters.prometheus.source import PrometheusUsageSource

__all__ = ["PrometheusUsageSource"]

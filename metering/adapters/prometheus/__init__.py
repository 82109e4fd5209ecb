"""Prometheus as a source of usage: kube-state-metrics for who held what, DCGM for how busy it was.

`source` asks at most four queries a window (`queries`) through a session that believes nothing by
itself (`session`), and reads the answers (`samples`) into what metering knows: the clock
(`clock`), pods (`pods`), nodes (`nodes`) and devices (`devices`, `energy`).
"""

from metering.adapters.prometheus.source import PrometheusUsageSource

__all__ = ["PrometheusUsageSource"]

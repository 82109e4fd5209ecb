"""Sources of the programs of Prometheus and VictoriaMetrics."""

from pathlib import Path

from embedded.debian_programs import Package, Programs, find_programs

PROGRAM = "prometheus"
TOOL = "promtool"
PROMETHEUS = Package("Prometheus", "prometheus", (PROGRAM, TOOL))
PROMETHEUS_3 = Package(
    "Prometheus 3", "prometheus", (PROGRAM, TOOL), also=(TOOL,), suite="forky", kept="prometheus-3"
)
"""Beside the other one, whose ranges hold the sample at their begin; this one's do not."""
VICTORIA_METRICS = Package("VictoriaMetrics", "victoria-metrics", ("victoria-metrics",))


def find_prometheus(tools: Path, *, is_fetched: bool = True) -> Programs:
    """Return Prometheus' programs; see `find_programs`."""
    return find_programs(PROMETHEUS, tools, is_fetched=is_fetched)


def find_prometheus_3(tools: Path, *, is_fetched: bool = True) -> Programs:
    """Return the programs of Prometheus 3 from a later Debian; see `find_programs`."""
    return find_programs(PROMETHEUS_3, tools, is_fetched=is_fetched)


def find_victoria_metrics(tools: Path, *, is_fetched: bool = True) -> Programs:
    """Return the program of VictoriaMetrics; see `find_programs`."""
    return find_programs(VICTORIA_METRICS, tools, is_fetched=is_fetched)

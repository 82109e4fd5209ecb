"""Exposition texts as a Prometheus would hold them after an hour of scrapes, one cluster a text.

A text of one scrape is repeated every 30 seconds; the energy counter grows by the power beside it.
What a scrape adds is added: the target's labels, and `exported_` before those that clash unless the
scrape honours the exporter's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
POWER = "DCGM_FI_DEV_POWER_USAGE"
SCRAPE_SECONDS = 30
LEAD_SECONDS, LAG_SECONDS = 600, 1_200
EXPORTER = {
    "job": "nvidia-dcgm-exporter",
    "instance": "10.42.3.17:9400",
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-7hx2p",
    "container": "nvidia-dcgm-exporter",
}
KSM = {"job": "kube-state-metrics", "instance": "10.42.0.9:8080"}
_LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (\S+)", re.ASCII)
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"', re.ASCII)


@dataclass(frozen=True)
class Line:
    """One series of a scrape."""

    name: str
    labels: Mapping[str, str]
    value: str


@dataclass(frozen=True)
class Pod:
    """What kube-state-metrics shows of a pod that is bound throughout, or from some second on."""

    namespace: str
    name: str
    uid: str
    resource: str
    bound_seconds: int = -7_200


def read_text(path: Path) -> list[Line]:
    """Return the series of an exposition text."""
    return [
        Line(found[1], dict(_LABEL.findall(found[2])), found[3])
        for found in map(_LINE.fullmatch, path.read_text(encoding="utf-8").splitlines())
        if found
    ]


def scraped(lines: Sequence[Line], target: Mapping[str, str], *, honors: bool) -> list[Line]:
    """Return series as after a scrape."""
    return [Line(one.name, _labels(one.labels, target, honors=honors), one.value) for one in lines]


def _labels(
    own: Mapping[str, str], target: Mapping[str, str], *, honors: bool
) -> Mapping[str, str]:
    if honors:
        return {**target, **own}
    return {(f"exported_{key}" if key in target else key): text for key, text in own.items()} | {
        **target
    }


def objects(
    node: str,
    pods: Sequence[Pod],
    *,
    labels: Mapping[str, str],
    allocatable: Mapping[str, int],
    start_at: datetime,
) -> list[Line]:
    """Return kube-state-metrics' series of one node and its pods; names are sanitised."""
    reported = {f"label_{clean(key)}": text for key, text in labels.items()}
    lines = [Line("kube_node_labels", {"node": node, **reported}, "1")]
    lines += [
        Line(
            "kube_node_status_allocatable",
            {"node": node, "resource": clean(resource), "unit": "integer"},
            str(units),
        )
        for resource, units in allocatable.items()
    ]
    for pod in pods:
        lines += _pod_lines(pod, node=node, start_at=start_at)
    return lines


def _pod_lines(pod: Pod, *, node: str, start_at: datetime) -> Iterator[Line]:
    own = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
    asked = {"container": "main", "node": node, "resource": clean(pod.resource), "unit": "integer"}
    bound = int(start_at.timestamp()) + pod.bound_seconds
    yield Line("kube_pod_container_resource_requests", {**own, **asked}, "1")
    yield Line("kube_pod_info", {**own, "node": node, "priority_class": "gpu-standard"}, "1")
    yield Line("kube_pod_status_scheduled_time", own, str(bound))
    yield Line("kube_pod_labels", own, "1")
    yield Line("kube_pod_status_phase", {**own, "phase": "Failed"}, "0")


def clean(name: str) -> str:
    """Return a name as kube-state-metrics spells it."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def history(clusters: Mapping[str, Sequence[Line]], *, start_at: datetime) -> Iterator[str]:
    """Yield OpenMetrics text of an hour of scrapes of several clusters, family by family."""
    begin = int(start_at.timestamp())
    ticks = range(begin - LEAD_SECONDS + 7, begin + 3600 + LAG_SECONDS, SCRAPE_SECONDS)
    for name in sorted({one.name for lines in clusters.values() for one in lines}):
        yield f"# TYPE {name} unknown\n"
        for cluster, lines in clusters.items():
            powers = {_device(one): one.value for one in lines if one.name == POWER}
            for one in lines:
                if one.name == name:
                    labels = ",".join(
                        f'{key}="{text}"'
                        for key, text in {"cluster": cluster, **one.labels}.items()
                    )
                    for at in ticks:
                        value = _value(one, powers, at - ticks[0])
                        yield f"{name}{{{labels}}} {value} {at}\n"
    yield "# EOF\n"


def _device(one: Line) -> tuple[str, str]:
    return one.labels.get("UUID", ""), one.labels.get("GPU_I_ID", "")


def _value(one: Line, powers: Mapping[tuple[str, str], str], seconds: int) -> str:
    if one.name != ENERGY:
        return one.value
    watts, _, fraction = powers[_device(one)].partition(".")
    milliwatts = int(watts) * 1000 + int(fraction[:3] or 0)
    return str(int(one.value) + milliwatts * seconds)

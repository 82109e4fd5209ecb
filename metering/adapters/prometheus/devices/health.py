"""Health: levels of the metrics that are 0 on a healthy device."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from metering.adapters.prometheus.asking import Asking
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.queries import QueryPlan, quoted
from metering.adapters.prometheus.samples import Range, Series, read_decimal, to_time
from metering.domain.devices.error_tables import (
    ECC_VOLATILE,
    HEALTH_STATUS,
    NVLINK_CRC,
    NVLINK_RECOVERY,
    POWER_VIOLATION,
    RETIRED_PAGES,
    ROW_REMAP_FAILURE,
    ROWS_UNCORRECTABLE,
    THERMAL_VIOLATION,
    XID_COUNT,
    XID_ERRORS,
)
from metering.protocols.health import HealthObservation, HealthRun, HealthSignal

HEALTH_METRICS: Final[Mapping[str, tuple[str, ...]]] = {
    XID_ERRORS: (XID_ERRORS, "DCGM_FI_DEV_XID_ERROR"),
    XID_COUNT: (XID_COUNT,),
    HEALTH_STATUS: (HEALTH_STATUS,),
    ECC_VOLATILE: (ECC_VOLATILE,),
    RETIRED_PAGES: (RETIRED_PAGES,),
    ROWS_UNCORRECTABLE: (ROWS_UNCORRECTABLE, "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    ROW_REMAP_FAILURE: (ROW_REMAP_FAILURE, "DCGM_FI_DEV_ROW_REMAP_FAILED"),
    NVLINK_RECOVERY: (NVLINK_RECOVERY,),
    NVLINK_CRC: (NVLINK_CRC,),
    POWER_VIOLATION: (POWER_VIOLATION,),
    THERMAL_VIOLATION: (THERMAL_VIOLATION,),
}
"""Names by DCGM 4.6 stand beside the older ones; a site's own are its `metric_aliases`."""
CODE_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    XID_COUNT: ("xid",),
    HEALTH_STATUS: ("health_watch",),
}
HOLE_STEPS: Final = Decimal("2.5")
"""Samples farther apart than this are two levels, even with the same value."""
_Key = tuple[str, str, str]


def health_names(names: Names) -> Names:
    """Return a cluster's names with those of health metrics; its own aliases replace ours."""
    metrics = {
        **names.metrics,
        **{name: names.metrics.get(name, sites) for name, sites in HEALTH_METRICS.items()},
    }
    ours = {site: metric for metric, sites in metrics.items() for site in sites}
    return Names(metrics=metrics, labels=names.labels, ours=ours)


def health_query(names: Names, *, selector: str, range_seconds: int, step_seconds: int) -> str:
    """Return the query of every health metric above 0, at each step of a range.

    Args:
        names: From `health_names`.
        selector: Further matchers, each led by a comma; "" for none.
        range_seconds: How far to look back.
        step_seconds: One scrape.
    """
    named = quoted("|".join(names.spelled(*HEALTH_METRICS)))
    return f"({{__name__=~{named}{selector}}} > 0)[{range_seconds:d}s:{step_seconds:d}s]"


@dataclass
class _Levels:
    """One metric of one device: the largest value a time over its copies."""

    node: str
    values: dict[int, Decimal]

    def add(self, series: Series) -> None:
        for at, text in zip(series.times, series.values, strict=True):
            value = read_decimal(text)
            if value.is_finite() and value > self.values.get(at, Decimal(0)):
                self.values[at] = value


def read_health(
    series: Iterable[Series], names: Names, *, step_seconds: int
) -> tuple[HealthSignal, ...]:
    """Return the health signals, by device, metric and code.

    Raises:
        SourceUnavailableError: `bad_sample` for a value that is no number.
    """
    by_gpu: dict[_Key, dict[tuple[str, str], _Levels]] = defaultdict(dict)
    for one in series:
        uuid = names.label(one.labels, "uuid")
        if not uuid:
            continue
        code = next((one.labels[n] for n in CODE_LABELS.get(one.metric, ()) if n in one.labels), "")
        instance = (
            names.label(one.labels, "instance_id"),
            names.label(one.labels, "instance_profile"),
        )
        node = names.label(one.labels, "hostname")
        levels = by_gpu[uuid, one.metric, code].setdefault(instance, _Levels(node, {}))
        levels.add(one)
    return tuple(
        signal
        for key in sorted(by_gpu)
        for signal in _signals(key, by_gpu[key], step_seconds=step_seconds)
    )


def _signals(
    key: _Key, instances: Mapping[tuple[str, str], _Levels], *, step_seconds: int
) -> Iterable[HealthSignal]:
    uuid, metric, code = key
    by_instance = {
        instance: (levels.node, _runs(levels.values, step_seconds=step_seconds))
        for instance, levels in sorted(instances.items())
    }
    values = {tuple(run.value for run in runs) for _, runs in by_instance.values()}
    if len(by_instance) > 1 and len(values) == 1:
        by_instance = {("", ""): next(iter(by_instance.values()))}
    for (instance_id, profile), (node, runs) in by_instance.items():
        if runs:
            yield HealthSignal(
                uuid=uuid,
                node=node,
                instance_id=instance_id,
                instance_profile=profile,
                metric=metric,
                code=code,
                runs=runs,
            )


def _runs(values: Mapping[int, Decimal], *, step_seconds: int) -> tuple[HealthRun, ...]:
    """Return the levels, each from its first sample to its last."""
    hole = int(HOLE_STEPS * step_seconds * 1000)
    found: list[tuple[Decimal, int, int]] = []
    for at in sorted(values):
        if found and found[-1][0] == values[at] and at - found[-1][2] <= hole:
            found[-1] = (values[at], found[-1][1], at)
        else:
            found.append((values[at], at, at))
    return tuple(HealthRun(value, to_time(first), to_time(last)) for value, first, last in found)


def read_health_levels(
    asking: Asking, plan: QueryPlan, near: Range, *, step_seconds: int
) -> HealthObservation:
    """Return the levels of health metrics above 0 in a range, and the query that showed them.

    Raises:
        SourceUnavailableError: No response, or an invalid one.
    """
    names = health_names(plan.names)

    def template(range_seconds: int) -> str:
        return health_query(
            names,
            selector=plan.selector,
            range_seconds=range_seconds,
            step_seconds=step_seconds,
        )

    spelled = replace(asking, names=names)
    series = spelled.matrix(template, near)
    signals = read_health(series, names, step_seconds=step_seconds)
    last = asking.evidence[-1]
    return HealthObservation(
        signals=signals,
        step_seconds=step_seconds,
        query=last.query,
        asked_at=last.at,
        sha256=last.sha256,
    )

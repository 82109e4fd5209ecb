"""Short words for overages and candidates."""

from datetime import UTC, datetime, timedelta

from metering.domain.catalogue.units import GPUSize
from quotas.domain.preemption.choice import Candidate
from quotas.domain.preemption.overage import (
    Allowance,
    Overage,
    OverageKind,
    PodUnits,
    UnitsSelector,
)

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


def allowance(
    nominal: int | None = 4,
    burst: int = 0,
    *,
    project: str = "",
    username: str = "",
    model_group: str = "",
    cluster: str = "",
    size: GPUSize = GPUSize.LARGE,
) -> Allowance:
    holder = username or project or "acme"
    selector = UnitsSelector(size, project, username, model_group, cluster)
    return Allowance(f"limit of {holder}", holder, selector, nominal, burst)


def holding(
    units: int = 1,
    *,
    project: str = "llm",
    username: str = "carol",
    cluster: str = "hopper",
    models: tuple[str, ...] = ("H100",),
    is_burst: bool = False,
    size: GPUSize = GPUSize.LARGE,
) -> PodUnits:
    return PodUnits(size, units, project, username, cluster, frozenset(models), is_burst)


def over(
    units: int,
    kind: OverageKind = OverageKind.NOMINAL,
    *,
    project: str = "",
    username: str = "",
    size: GPUSize = GPUSize.LARGE,
) -> Overage:
    selector = UnitsSelector(size, project, username)
    return Overage(kind, "limit", username or project or "acme", selector, units)


def pod(
    name: str,
    units: int = 1,
    *,
    controller: str = "",
    priority: int = 0,
    priority_class: str = "",
    age: int = 0,
    project: str = "llm",
    is_burst: bool = False,
    is_ending: bool = False,
    protection: str = "",
    size: GPUSize = GPUSize.LARGE,
) -> Candidate:
    held = holding(units, project=project, is_burst=is_burst, size=size)
    return Candidate(
        cluster="hopper",
        namespace=project,
        pod_name=name,
        pod_uid=f"uid-{name}",
        controller=controller,
        priority_class=priority_class,
        priority=priority,
        began_at=NOON - timedelta(minutes=age),
        holdings=(held,) if units else (),
        is_ending=is_ending,
        protection=protection,
    )

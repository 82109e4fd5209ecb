"""Overage: by how much usage exceeds each limit.

Nominal and burst units are separate caps: a preemptible pod counts against burst units only.
"Yield" is the third kind: burst units to be released although their limit allows them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from metering.domain.catalogue.units import GPUSize
from quotas.domain.limits.tally import may_be_of


class OverageKind(StrEnum):
    """The cap that is exceeded."""

    NOMINAL = "nominal"
    BURST = "burst"
    YIELD = "yield"


@dataclass(frozen=True)
class UnitsSelector:
    """Units that a limit counts: by holder, size, model and cluster.

    Attributes:
        project: "" for the whole organization.
        username: "" for everybody; else a user inside the project.
        model_group: "" for every model.
        cluster: "" for every cluster.
    """

    size: GPUSize
    project: str = ""
    username: str = ""
    model_group: str = ""
    cluster: str = ""

    @property
    def is_narrow(self) -> bool:
        """Whether it is about a part of the organization: what exceeds it there was borrowed."""
        return bool(self.project)


@dataclass(frozen=True)
class Allowance:
    """Units that one limit allows.

    Attributes:
        limit_id: Of the limit, as text.
        holder: As text, such as "project llm".
        nominal_units: None is unlimited.
    """

    limit_id: str
    holder: str
    selector: UnitsSelector
    nominal_units: int | None
    burst_units: int


@dataclass(frozen=True)
class PodUnits:
    """Units that are held.

    Attributes:
        model_groups: Every model they may be of; empty counts for all.
    """

    size: GPUSize
    units: int
    project: str
    username: str
    cluster: str
    model_groups: frozenset[str]
    is_burst: bool


@dataclass(frozen=True)
class Overage:
    """One cap that is exceeded.

    Attributes:
        limit_id: "" when burst must yield and no limit is exceeded.
        units: Above zero.
    """

    kind: OverageKind
    limit_id: str
    holder: str
    selector: UnitsSelector
    units: int

    @property
    def sentence(self) -> str:
        """Return it as text."""
        name = _SENTENCES[self.kind]
        return name.format(units=self.units, size=self.selector.size, holder=self.holder)


_SENTENCES = {
    OverageKind.NOMINAL: "{units} {size} over the limit of {holder}",
    OverageKind.BURST: "{units} {size} over the burst allowance of {holder}",
    OverageKind.YIELD: "{units} {size} of burst that {holder} must yield",
}


def overages_of(
    allowances: Iterable[Allowance], holdings: Iterable[PodUnits]
) -> tuple[Overage, ...]:
    """Return every cap that is exceeded, in the order of the allowances, nominal first.

    Args:
        allowances: Every limit in force of one organization.
        holdings: Everything the organization holds.
    """
    held = tuple(holdings)
    return tuple(
        overage for allowance in allowances for overage in _overages_of_one(allowance, held)
    )


def _overages_of_one(allowance: Allowance, held: tuple[PodUnits, ...]) -> Iterable[Overage]:
    quota_caps = (
        (OverageKind.NOMINAL, allowance.nominal_units),
        (OverageKind.BURST, allowance.burst_units),
    )
    for kind, quota_cap in quota_caps:
        if quota_cap is None:
            continue
        used = sum(one.units for one in held if counts(kind, allowance.selector, one))
        if used > quota_cap:
            yield Overage(
                kind=kind,
                limit_id=allowance.limit_id,
                holder=allowance.holder,
                selector=allowance.selector,
                units=used - quota_cap,
            )


def counts(kind: OverageKind, selector: UnitsSelector, holding: PodUnits) -> bool:
    """Whether a holding counts against a cap: releasing it lowers that overage."""
    return (
        holding.is_burst is (kind is not OverageKind.NOMINAL)
        and holding.size is selector.size
        and selector.project in {"", holding.project}
        and selector.username in {"", holding.username}
        and selector.cluster in {"", holding.cluster}
        and may_be_of(selector.model_group, holding.model_groups)
    )

"""What sweeps of live use and repairs of counters have done, as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Bypass:
    """Bound pods of one size in one namespace that nobody had let in.

    Attributes:
        cluster: Slug.
        units: Of all these pods together.
    """

    cluster: str
    namespace: str
    size: str
    pods: int
    units: int


@dataclass(frozen=True)
class Sweep:
    """How many reservations a sweep touched.

    Attributes:
        released: No longer count.
        changed: Seen, bound, moved or counted again.
        found: Made for open allocations that had none.
        bypasses: Those found in clusters that admit, by cluster, namespace and size.
    """

    released: int = 0
    changed: int = 0
    found: int = 0
    bypasses: tuple[Bypass, ...] = ()

    @property
    def touched(self) -> int:
        """How many reservations it touched; 0 when there was nothing to do."""
        return self.released + self.changed + self.found


@dataclass(frozen=True)
class Repair:
    """A counter that was not the sum of its reservations, and by how many units."""

    organization_id: UUID
    limit_id: UUID
    drift_units: int


def sweep_of(answer: Mapping[str, Any]) -> Sweep:
    """Return what the ledger's answer to a sweep says; an empty answer is an idle sweep."""
    bypasses = tuple(Bypass(**told) for told in answer.get("bypasses", ()))
    return Sweep(
        released=answer.get("released", 0),
        changed=answer.get("changed", 0),
        found=answer.get("found", 0),
        bypasses=bypasses,
    )


def repairs_of(answer: Iterable[Mapping[str, Any]]) -> tuple[Repair, ...]:
    """Return what the ledger's answer to a repair says, by organization and limit."""
    return tuple(
        Repair(
            organization_id=UUID(told["organization_id"]),
            limit_id=UUID(told["limit_id"]),
            drift_units=told["drift_units"],
        )
        for told in answer
    )

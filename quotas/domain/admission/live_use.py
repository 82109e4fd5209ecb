"""What sweeps of live use and repairs of counters have done, as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Bypass:
    """Bound pods of one size in one namespace that were never admitted.

    Attributes:
        cluster: Slug.
        size: "" while unknown: such pods are reported, but not counted.
        units: Sum over all these pods.
    """

    cluster: str
    namespace: str
    size: str
    pods: int
    units: int


@dataclass(frozen=True)
class LiveUseSweep:
    """How many reservations a sweep touched.

    Attributes:
        released: No longer count.
        changed: Seen, bound, moved or counted again.
        found: Made for open allocations that had none.
        bypasses: Those found in clusters that admit, by cluster, namespace and size.
        turns_left: Batches skipped because another session locked their organizations; the next
            sweep retries them.
        turns_crashed: Batches rolled back by an error; the next sweep retries them.
    """

    released: int = 0
    changed: int = 0
    found: int = 0
    bypasses: tuple[Bypass, ...] = ()
    turns_left: int = 0
    turns_crashed: int = 0

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


def sweep_of(answer: Mapping[str, Any]) -> LiveUseSweep:
    """Return the result of one batch; an empty row means nothing changed."""
    bypasses = tuple(Bypass(**fields) for fields in answer.get("bypasses", ()))
    return LiveUseSweep(
        released=answer.get("released", 0),
        changed=answer.get("changed", 0),
        found=answer.get("found", 0),
        bypasses=bypasses,
    )


def together(turns: Iterable[LiveUseSweep]) -> LiveUseSweep:
    """Return the sum over the batches of one sweep."""
    done = tuple(turns)
    bypasses: dict[tuple[str, str, str], Bypass] = {}
    for bypass in (bypass for turn in done for bypass in turn.bypasses):
        key = bypass.cluster, bypass.namespace, bypass.size
        known = bypasses.get(key, replace(bypass, pods=0, units=0))
        bypasses[key] = replace(
            known, pods=known.pods + bypass.pods, units=known.units + bypass.units
        )
    return LiveUseSweep(
        released=sum(turn.released for turn in done),
        changed=sum(turn.changed for turn in done),
        found=sum(turn.found for turn in done),
        bypasses=tuple(bypasses[key] for key in sorted(bypasses)),
        turns_left=sum(turn.turns_left for turn in done),
        turns_crashed=sum(turn.turns_crashed for turn in done),
    )


def repairs_of(answer: Iterable[Mapping[str, Any]]) -> tuple[Repair, ...]:
    """Return the result of a repair, by organization and limit."""
    return tuple(
        Repair(
            organization_id=UUID(fields["organization_id"]),
            limit_id=UUID(fields["limit_id"]),
            drift_units=fields["drift_units"],
        )
        for fields in answer
    )

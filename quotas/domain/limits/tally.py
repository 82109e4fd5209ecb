"""Tally: what is held now, added up for every limit that could count it."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from metering.domain.catalogue.units import GPUSize


@dataclass(frozen=True)
class UnitsNow:
    """Units of one kind that pods of one owner hold, or were admitted for.

    Attributes:
        username: "" when the owner is unknown.
        model_groups: Every group they count against; empty counts against each of them.
        is_held: Whether bound to a node; False is admitted and not bound yet.
    """

    organization_id: UUID
    project_id: UUID
    username: str
    size: GPUSize
    cluster_id: UUID
    units: int
    model_groups: tuple[str, ...] = ()
    is_burst: bool = False
    is_held: bool = True


def may_be_of(model_group: str, model_groups: Collection[str]) -> bool:
    """Whether units count against a limit of a model; those of an unknown model count everywhere.

    Args:
        model_group: "" for a limit of every model.
        model_groups: Every group the units may be of; empty where none is known.
    """
    return not model_group or not model_groups or model_group in model_groups


@dataclass(frozen=True)
class TallyKey:
    """What a limit counts: a holder and a selector.

    Attributes:
        project_id: None for the whole organization.
        username: None for a whole project.
        model_group: "" for every model.
        cluster_id: None for every cluster.
    """

    organization_id: UUID
    project_id: UUID | None
    username: str | None
    size: GPUSize
    model_group: str = ""
    cluster_id: UUID | None = None

    def counts(self, use: UnitsNow) -> bool:
        """Whether what is held counts against it."""
        return (
            self.organization_id == use.organization_id
            and self.project_id in {None, use.project_id}
            and self.username in {None, use.username}
            and self.size is use.size
            and self.cluster_id in {None, use.cluster_id}
            and may_be_of(self.model_group, use.model_groups)
        )

    def covers(self, other: "TallyKey") -> bool:
        """Whether its selector counts everything that the other's counts; holders do not matter."""
        return (
            self.size is other.size
            and self.model_group in {"", other.model_group}
            and self.cluster_id in {None, other.cluster_id}
        )


@dataclass
class Taken:
    """Units that count against one key; burst is the sum of held and admitted."""

    held_units: int = 0
    reserved_units: int = 0
    burst_units: int = 0


class UseByLimit:
    """What every limit counts, added up once over all that is held."""

    def __init__(self, uses: Iterable[UnitsNow]) -> None:
        """Add up; the work grows with what is held, never with the number of limits."""
        self._taken: dict[TallyKey, Taken] = {}
        for use in uses:
            for key in _keys(use):
                _add(self._taken.setdefault(key, Taken()), use)

    def taken(self, key: TallyKey) -> Taken:
        """Return what counts against a limit.

        What may land on any model counts against the limits of each model.
        """
        found = self._taken.get(key, Taken())
        if not key.model_group:
            return found
        any_model = TallyKey(
            key.organization_id,
            key.project_id,
            key.username,
            key.size,
            ANY_MODEL,
            key.cluster_id,
        )
        more = self._taken.get(any_model, Taken())
        return Taken(
            found.held_units + more.held_units,
            found.reserved_units + more.reserved_units,
            found.burst_units + more.burst_units,
        )

    def holders(self) -> set[TallyKey]:
        """Return every user with any use, over all models and clusters."""
        return {key for key in self._taken if not key.model_group and key.cluster_id is None}


ANY_MODEL = "*"
"""Stands for units whose model is not known yet; no model group is called so."""


def _keys(use: UnitsNow) -> Iterator[TallyKey]:
    holders: list[tuple[UUID | None, str | None]] = [(None, None), (use.project_id, None)]
    if use.username:
        holders.append((use.project_id, use.username))
    for project_id, username in holders:
        for group in ("", *(use.model_groups or (ANY_MODEL,))):
            for cluster_id in (None, use.cluster_id):
                yield TallyKey(
                    use.organization_id, project_id, username, use.size, group, cluster_id
                )


def _add(taken: Taken, use: UnitsNow) -> None:
    if use.is_burst:
        taken.burst_units += use.units
    elif use.is_held:
        taken.held_units += use.units
    else:
        taken.reserved_units += use.units

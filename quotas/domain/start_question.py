"""Start question: may a pod of so many units start now, and which limit says no first.

It follows admission's own rules, so that the answer is the one admission would give; but nothing is
reserved by asking, and another pod may be faster.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from quotas.domain.walls import Wall, room_of, waiting_units


class StartCode(StrEnum):
    """What is answered; what starts with "fits" may start."""

    FITS = "fits"
    FITS_UNGOVERNED = "fits_ungoverned"
    """Nobody has decided anything for this tenant yet."""
    SUSPENDED = "suspended"
    NOTHING_GRANTED = "nothing_granted"
    LIMIT_REACHED = "limit_reached"
    ALLOWANCE_USED = "allowance_used"
    CLUSTER_QUOTA_FULL = "cluster_quota_full"
    """Every limit has room, but no quota of the project's namespaces in the cluster has."""


@dataclass(frozen=True)
class LimitHeadroom:
    """One limit that binds the pod, and what it leaves.

    Attributes:
        scope: "organization", "project" or "user".
        holder: Slug of the organization or project, or the user name.
        model_group: "" for every model.
        cluster: Slug; "" for every cluster.
        limit_units: In force, nominal or burst as is asked; None is unlimited.
        is_allowance_used: The month's unit-hours are used up.
    """

    limit_id: UUID
    scope: str
    holder: str
    model_group: str
    cluster: str
    limit_units: int | None
    used_units: int
    reserved_units: int
    is_allowance_used: bool = False

    @property
    def room_units(self) -> int | None:
        """What is in force less what is taken: negative when exceeded, None when unlimited."""
        if self.limit_units is None:
            return None
        return self.limit_units - self.used_units - self.reserved_units

    @property
    def free_units(self) -> int | None:
        """How many more may start; None when unlimited."""
        return None if self.room_units is None else max(0, self.room_units)

    def blocks(self, units: int) -> bool:
        """Whether it has no room for so many."""
        return self.is_allowance_used or (self.free_units is not None and self.free_units < units)


@dataclass(frozen=True)
class FullWalls:
    """Quotas in a cluster that have no room left for what is asked.

    Attributes:
        cluster: Its slug.
        waiting_units: Of what counts there, what does not run; None when that is not known.
    """

    cluster: str
    walls: tuple[Wall, ...]
    waiting_units: int | None


@dataclass(frozen=True)
class StartVerdict:
    """What is answered.

    Attributes:
        free_units: The most that fit; None when nothing bounds them.
        blocker: The first limit without room, in admission's order.
        full: The quotas without room, whether or not a limit says no too.
    """

    code: StartCode
    free_units: int | None
    blocker: LimitHeadroom | None = None
    full: FullWalls | None = None

    @property
    def fits(self) -> bool:
        """Whether the pod may start."""
        return self.code in {StartCode.FITS, StartCode.FITS_UNGOVERNED}


def judge_start(
    limits: Sequence[LimitHeadroom], *, units: int, is_governed: bool, is_suspended: bool
) -> StartVerdict:
    """Return whether so many units may start now.

    Args:
        limits: Those that bind the pod, in admission's order.
        units: 1 or more.
        is_governed: Whether the tenant has any limit at all.
        is_suspended: Whether it may start nothing.
    """
    if is_suspended:
        return StartVerdict(StartCode.SUSPENDED, 0)
    if not is_governed:
        return StartVerdict(StartCode.FITS_UNGOVERNED, None)
    if not limits:
        return StartVerdict(StartCode.NOTHING_GRANTED, 0)
    rooms = [limit.free_units for limit in limits if limit.free_units is not None]
    free = min(rooms, default=None)
    blocker = next((limit for limit in limits if limit.blocks(units)), None)
    if blocker is None:
        return StartVerdict(StartCode.FITS, free)
    if blocker.is_allowance_used and (blocker.free_units is None or blocker.free_units >= units):
        return StartVerdict(StartCode.ALLOWANCE_USED, 0, blocker)
    has_allowance = not any(limit.is_allowance_used for limit in limits)
    return StartVerdict(StartCode.LIMIT_REACHED, free if has_allowance else 0, blocker)


def bound_by_walls(
    verdict: StartVerdict, walls: Sequence[Wall], *, units: int, cluster: str, running_units: int
) -> StartVerdict:
    """Return a verdict that promises no more than the quotas in the cluster leave.

    Args:
        verdict: What the limits say.
        walls: Of every namespace the project has there; none leaves the verdict as it is.
        units: What is asked for.
        cluster: Its slug.
        running_units: What the project's pods there hold now of the size.
    """
    room = room_of(walls)
    if room is None or not (verdict.fits or verdict.code in WAITS):
        return verdict
    free = room if verdict.free_units is None else min(room, verdict.free_units)
    if units <= room:
        return replace(verdict, free_units=free)
    waiting = waiting_units(walls, running_units=running_units)
    full = FullWalls(cluster, tuple(walls), waiting)
    if not verdict.fits:
        return replace(verdict, free_units=free, full=full)
    return StartVerdict(StartCode.CLUSTER_QUOTA_FULL, free, full=full)


WAITS: Final = frozenset({StartCode.LIMIT_REACHED, StartCode.ALLOWANCE_USED})
"""What time may change: pods end, grants begin, and so does a month."""


def visible_free_units(
    verdict: StartVerdict, limits: Sequence[LimitHeadroom], *, hidden_scopes: Collection[str] = ()
) -> int | None:
    """Return the most that fit, as far as a caller may know it.

    None when nothing bounds them, and when what a scope leaves does whose figures are not the
    caller's to read.

    Args:
        verdict: What is answered.
        limits: Those that bind the pod.
        hidden_scopes: Scopes whose figures the caller may not read.
    """
    if verdict.code not in {
        StartCode.FITS,
        StartCode.LIMIT_REACHED,
        StartCode.CLUSTER_QUOTA_FULL,
    }:
        return verdict.free_units
    told = [limit.free_units for limit in limits if limit.scope not in hidden_scopes]
    has_hidden = len(told) < len(limits)
    return None if has_hidden and verdict.free_units not in told else verdict.free_units


def start_words(
    verdict: StartVerdict, *, size: str, units: int, hidden_scopes: Collection[str] = ()
) -> str:
    """Return the answer as one sentence for people, without the figures of hidden scopes."""
    asked = f"{units} {size.capitalize()}"
    if verdict.code is StartCode.FITS_UNGOVERNED:
        return f"{asked} may start: nobody has set a limit for this tenant."
    if verdict.code is StartCode.SUSPENDED:
        return "Nothing may start: the tenant is suspended until it is resumed."
    if verdict.code is StartCode.NOTHING_GRANTED:
        return f"{asked} may not start: no limit grants this size here."
    if verdict.fits:
        return f"{asked} may start now."
    reasons = []
    if verdict.blocker is not None:
        reasons.append(_blocked_words(verdict, verdict.blocker, hidden_scopes))
    if verdict.full is not None:
        reasons.append(_full_words(verdict.full, hidden_scopes))
    return f"{asked} may not start: {' And '.join(reasons)}"


def _blocked_words(
    verdict: StartVerdict, blocker: LimitHeadroom, hidden_scopes: Collection[str]
) -> str:
    who = f"the {blocker.scope} {blocker.holder}"
    if verdict.code is StartCode.ALLOWANCE_USED:
        return f"{who} has used its unit-hours of this month."
    if blocker.scope in hidden_scopes:
        return f"{who} has no room left for as many."
    return (
        f"{who} holds {blocker.used_units} and was let in for {blocker.reserved_units} of "
        f"{blocker.limit_units}."
    )


def _full_words(full: FullWalls, hidden_scopes: Collection[str]) -> str:
    """Return which quotas are full, and by what.

    What a namespace is given may be the organization's limit, so it is told to those alone who may
    read every limit.
    """
    told = "; ".join(
        wall.namespace
        if hidden_scopes
        else f"{wall.namespace} uses {wall.used_units} of {wall.hard_units}"
        for wall in full.walls
    )
    words = f"the quota in cluster {full.cluster} has no room for as many ({told})."
    if full.waiting_units:
        words = f"{words} Pods that do not run yet take {full.waiting_units} there."
    return f"{words} When it will have room is not known."

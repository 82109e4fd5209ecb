"""Start times: may a pod of so many units start now, which limit refuses it, and when it fits.

It follows admission's own rules, so that the answer is the one admission would give; but nothing is
reserved by asking, and another pod may be faster.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from quotas.domain.enforcement.caps import NamespaceCap, headroom_of, waiting_units


@dataclass(frozen=True)
class LimitCourse:
    """One limit that binds: what it leaves now, and its scheduled changes.

    Attributes:
        room_units: Units in force minus units that count against it; negative when exceeded. None
            is unlimited, whatever changes.
        changes: When, and by how many units, the limit itself rises or falls, oldest first.
    """

    headroom_units: int | None
    changes: tuple[tuple[datetime, int], ...] = ()


@dataclass(frozen=True)
class ExpectedEnd:
    """A running pod that will release units.

    Attributes:
        limits: Indexes of the limits that count it, in the sequence of limits.
    """

    at: datetime
    units: int
    limits: frozenset[int] = field(default_factory=frozenset)


def first_fit(
    limits: Sequence[LimitCourse],
    ends: Iterable[ExpectedEnd],
    *,
    units: int,
    at: datetime,
    until: datetime,
) -> datetime | None:
    """Return the first time from `at` to `until` at which the units fit every limit; None if none.

    Args:
        limits: Those that bind the pod.
        ends: When other pods are expected to end; those without an estimate are left out.
        units: Requested units.
        at: Now; what has changed up to then is in `room_units` already.
        until: End of the estimate.
    """
    headrooms = [limit.headroom_units for limit in limits]
    if _fits(headrooms, units):
        return at
    steps = sorted(_steps(limits, ends), key=lambda step: step[0])
    place = 0
    while place < len(steps):
        when = steps[place][0]
        if when > until:
            return None
        while place < len(steps) and steps[place][0] == when:
            _apply(headrooms, steps[place][1])
            place += 1
        if when > at and _fits(headrooms, units):
            return when
    return None


Step = tuple[datetime, tuple[tuple[int, int], ...]]
"""A time, and which limits gain how many units then."""


def _steps(limits: Sequence[LimitCourse], ends: Iterable[ExpectedEnd]) -> Iterable[Step]:
    for place, limit in enumerate(limits):
        for when, units in limit.changes:
            yield when, ((place, units),)
    for end in ends:
        yield end.at, tuple((place, end.units) for place in sorted(end.limits))


def _apply(headrooms: list[int | None], gains: tuple[tuple[int, int], ...]) -> None:
    for place, units in gains:
        headroom = headrooms[place]
        if headroom is not None:
            headrooms[place] = headroom + units


def _fits(headrooms: Iterable[int | None], units: int) -> bool:
    return all(headroom is None or headroom >= units for headroom in headrooms)


LIVES_MIN: Final = 5
"""With fewer lives that lasted longer, one of them would decide alone."""


def remaining_seconds(*, age_seconds: int, lives: Sequence[int], percent: int) -> int | None:
    """Return by when, from now, this share of the like of a pod had ended; None when unknown.

    Args:
        age_seconds: How long it has run.
        lives: How long others ran, in seconds, shortest first.
        percent: 50 for the median, 90 for nearly surely; 1 to 100.
    """
    longer = lives[bisect_right(lives, age_seconds) :]
    if len(longer) < LIVES_MIN:
        return None
    rank = -(-len(longer) * percent // 100)
    return longer[rank - 1] - age_seconds


class StartCode(StrEnum):
    """Result of a start check; codes that begin with "fits" may start."""

    FITS = "fits"
    FITS_UNGOVERNED = "fits_ungoverned"
    """No limit is set for this tenant yet."""
    SUSPENDED = "suspended"
    NOTHING_GRANTED = "nothing_granted"
    LIMIT_REACHED = "limit_reached"
    ALLOWANCE_USED = "allowance_used"
    CLUSTER_QUOTA_FULL = "cluster_quota_full"
    """It fits every limit, but no quota of the project's namespaces in the cluster."""


@dataclass(frozen=True)
class LimitHeadroom:
    """One limit that binds the pod, and what it leaves.

    Attributes:
        scope: "organization", "project" or "user".
        holder: Slug of the organization or project, or the user name.
        model_group: "" for every model.
        cluster: Slug; "" for every cluster.
        limit_units: In force, nominal or burst as requested; None is unlimited.
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
    def headroom_units(self) -> int | None:
        """What is in force less what is taken: negative when exceeded, None when unlimited."""
        if self.limit_units is None:
            return None
        return self.limit_units - self.used_units - self.reserved_units

    @property
    def free_units(self) -> int | None:
        """How many more may start; None when unlimited."""
        return None if self.headroom_units is None else max(0, self.headroom_units)

    def blocks(self, units: int) -> bool:
        """Whether that many units do not fit."""
        return self.is_allowance_used or (self.free_units is not None and self.free_units < units)


@dataclass(frozen=True)
class FullCaps:
    """Quotas in a cluster in which the requested units do not fit.

    Attributes:
        cluster: Its slug.
        waiting_units: Of what counts there, what does not run; None when that is not known.
    """

    cluster: str
    quota_caps: tuple[NamespaceCap, ...]
    waiting_units: int | None


@dataclass(frozen=True)
class StartVerdict:
    """The verdict on a start.

    Attributes:
        free_units: The most that fit; None when nothing bounds them.
        blocker: The first limit that is full, in admission's order.
        full: The quotas that are full, whether or not a limit is full too.
    """

    code: StartCode
    free_units: int | None
    blocker: LimitHeadroom | None = None
    full: FullCaps | None = None

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
    headrooms = [limit.free_units for limit in limits if limit.free_units is not None]
    free = min(headrooms, default=None)
    blocker = next((limit for limit in limits if limit.blocks(units)), None)
    if blocker is None:
        return StartVerdict(StartCode.FITS, free)
    if blocker.is_allowance_used and (blocker.free_units is None or blocker.free_units >= units):
        return StartVerdict(StartCode.ALLOWANCE_USED, 0, blocker)
    has_allowance = not any(limit.is_allowance_used for limit in limits)
    return StartVerdict(StartCode.LIMIT_REACHED, free if has_allowance else 0, blocker)


def bound_by_caps(
    verdict: StartVerdict,
    quota_caps: Sequence[NamespaceCap],
    *,
    units: int,
    cluster: str,
    running_units: int,
) -> StartVerdict:
    """Return the verdict, lowered to what the quotas in the cluster leave.

    Args:
        verdict: The verdict by the limits.
        quota_caps: Caps of the project's namespaces there; none leaves the verdict as it is.
        units: Requested units.
        cluster: Its slug.
        running_units: Units of the size that the project's pods use there now.
    """
    headroom = headroom_of(quota_caps)
    if headroom is None or not (verdict.fits or verdict.code in WAITS):
        return verdict
    free = headroom if verdict.free_units is None else min(headroom, verdict.free_units)
    if units <= headroom:
        return replace(verdict, free_units=free)
    waiting = waiting_units(quota_caps, running_units=running_units)
    full = FullCaps(cluster, tuple(quota_caps), waiting)
    if not verdict.fits:
        return replace(verdict, free_units=free, full=full)
    return StartVerdict(StartCode.CLUSTER_QUOTA_FULL, free, full=full)


WAITS: Final = frozenset({StartCode.LIMIT_REACHED, StartCode.ALLOWANCE_USED})
"""What time may change: pods end, grants begin, and so does a month."""


def visible_free_units(
    verdict: StartVerdict, limits: Sequence[LimitHeadroom], *, hidden_scopes: Collection[str] = ()
) -> int | None:
    """Return the most that fit, as far as a caller may see it.

    None when nothing bounds them, and when what a scope leaves does whose figures are not the
    caller's to read.

    Args:
        verdict: The verdict on a start.
        limits: Those that bind the pod.
        hidden_scopes: Scopes whose figures the caller may not read.
    """
    if verdict.code not in {
        StartCode.FITS,
        StartCode.LIMIT_REACHED,
        StartCode.CLUSTER_QUOTA_FULL,
    }:
        return verdict.free_units
    visible = [limit.free_units for limit in limits if limit.scope not in hidden_scopes]
    has_hidden = len(visible) < len(limits)
    return None if has_hidden and verdict.free_units not in visible else verdict.free_units


def start_text(
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
        reasons.append(_blocked_text(verdict, verdict.blocker, hidden_scopes))
    if verdict.full is not None:
        reasons.append(_full_text(verdict.full, hidden_scopes))
    return f"{asked} may not start: {' And '.join(reasons)}"


def _blocked_text(
    verdict: StartVerdict, blocker: LimitHeadroom, hidden_scopes: Collection[str]
) -> str:
    who = f"the {blocker.scope} {blocker.holder}"
    if verdict.code is StartCode.ALLOWANCE_USED:
        return f"{who} has used its unit-hours of this month."
    if blocker.scope in hidden_scopes:
        return f"{who} has no room left for as many."
    return (
        f"{who} holds {blocker.used_units} and has reserved {blocker.reserved_units} of "
        f"{blocker.limit_units}."
    )


def _full_text(full: FullCaps, hidden_scopes: Collection[str]) -> str:
    """Return which quotas are full, and by what.

    A namespace's quota may equal the organization's limit, so it is shown only to callers who may
    read every limit.
    """
    namespaces = "; ".join(
        quota_cap.namespace
        if hidden_scopes
        else f"{quota_cap.namespace} uses {quota_cap.used_units} of {quota_cap.hard_units}"
        for quota_cap in full.quota_caps
    )
    words = f"the quota in cluster {full.cluster} has no room for as many ({namespaces})."
    if full.waiting_units:
        words = f"{words} Pods that do not run yet take {full.waiting_units} there."
    return f"{words} When it will have room is not known."

"""Headroom: may a project start so many units now, and if not, when.

At most seven statements, whatever the number of limits and pods; one more where a limit has a
monthly allowance, one more where a project without limits of its own might be suspended, and two
more where a cluster has no admission and the quota of a namespace there was read.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Q

from metering.domain.catalogue.units import GPUSize
from metering.selectors.allocations.offers import ClusterHeadroom, cluster_headroom
from quotas.domain.enforcement.caps import NamespaceCap, certain_headroom_of
from quotas.domain.headroom.start import (
    WAITS,
    LimitHeadroom,
    StartVerdict,
    bound_by_caps,
    judge_start,
)
from quotas.domain.limits.tally import UseByLimit
from quotas.models import LimitScope, QuotaSuspension
from quotas.selectors.enforcement.namespaces import CapsByNamespace, caps_of_projects
from quotas.selectors.headroom.start_times import StartTime, start_time
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force, used_up_limit_ids
from quotas.selectors.limits.units_now import PodNow, pods_now
from tenants.models import Project

SCOPE_ORDER: Final = (LimitScope.ORGANIZATION, LimitScope.PROJECT, LimitScope.USER)


@dataclass(frozen=True)
class StartQuestion:
    """A workload to start.

    Attributes:
        username: "" checks no user's limit.
        model_group: "" may use every model, so it must fit the limits of each.
        cluster: Slug; "" is any of the project's clusters in which it fits.
    """

    project: Project
    size: GPUSize
    units: int
    username: str = ""
    model_group: str = ""
    cluster: str = ""
    is_burst: bool = False


@dataclass(frozen=True)
class StartAnswer:
    """What is answered.

    Attributes:
        cluster: Slug of the cluster it is about; "" when the project has none.
        limits: Those that bind there, in admission's order.
        when: The estimate; None when it may start, or nothing known will change it.
        clusters: Where the project has namespaces, and what their nodes have left, by slug.
        is_uncertain: Whether it fits only if a resource of several possible sizes is of this one.
        unread: Quotas in that cluster that are not considered, for they were not read lately.
    """

    verdict: StartVerdict
    cluster: str
    limits: tuple[LimitHeadroom, ...]
    when: StartTime | None
    clusters: tuple[ClusterHeadroom, ...]
    is_uncertain: bool = False
    unread: tuple[NamespaceCap, ...] = ()


@dataclass(frozen=True)
class _ClusterAnswer:
    """The answer for one cluster."""

    cluster: ClusterHeadroom | None
    limits: tuple[LimitInForce, ...]
    headrooms: tuple[LimitHeadroom, ...]
    verdict: StartVerdict
    quota_caps: tuple[NamespaceCap, ...]

    @property
    def unread(self) -> tuple[NamespaceCap, ...]:
        """The quotas that could refuse it if they were read."""
        if not (self.verdict.fits or self.verdict.code in WAITS):
            return ()
        return tuple(
            quota_cap for quota_cap in self.quota_caps if quota_cap.unread_since is not None
        )


def clusters_of_project(question: StartQuestion, *, at: datetime) -> tuple[ClusterHeadroom, ...]:
    """Return the clusters the question may be about; one statement."""
    found = cluster_headroom(
        project_id=question.project.pk,
        size=question.size,
        model_group=question.model_group,
        at=at,
    )
    return tuple(one for one in found if question.cluster in {"", one.slug})


def answer_start(
    question: StartQuestion,
    *,
    clusters: Sequence[ClusterHeadroom],
    at: datetime,
    burst_classes: Collection[str],
) -> StartAnswer:
    """Return whether it may start now; of several clusters, the one with most free units.

    Args:
        question: The workload.
        clusters: The result of `clusters_of_project`.
        at: Now, UTC.
        burst_classes: Priority classes of preemptible pods.
    """
    organization_id = question.project.organization_id
    limits = limits_in_force(at=at, organization_ids=[organization_id])
    own = [limit for limit in limits if _concerns(limit, question)]
    pods = pods_now(
        at=at, organization_id=organization_id, size=question.size, burst_classes=burst_classes
    )
    is_suspended = _is_suspended(own, question, at=at)
    places = _places(question, own, pods, clusters, is_suspended=is_suspended, at=at)
    quota_caps = caps_of_projects([question.project.pk], at=at)
    places = [_limited_by_caps(place, question, pods, quota_caps) for place in places]
    best = max(places, key=_headroom_of)
    return StartAnswer(
        verdict=best.verdict,
        cluster="" if best.cluster is None else best.cluster.slug,
        limits=best.headrooms,
        when=_when(question, best, places, pods, at=at),
        clusters=tuple(clusters),
        is_uncertain=_is_uncertain(best, question),
        unread=best.unread,
    )


def _limited_by_caps(
    place: _ClusterAnswer,
    question: StartQuestion,
    pods: Iterable[PodNow],
    quota_caps: CapsByNamespace,
) -> _ClusterAnswer:
    """Return the answer for one cluster, bounded by the quotas there."""
    if place.cluster is None:
        return place
    cluster_id = place.cluster.cluster_id
    found = quota_caps.get((question.project.pk, cluster_id), ())
    here = tuple(quota_cap.of(question.size, is_burst=question.is_burst) for quota_cap in found)
    running = sum(
        pod.use.units
        for pod in pods
        if (pod.use.project_id, pod.use.cluster_id) == (question.project.pk, cluster_id)
        and pod.use.is_burst == question.is_burst
    )
    verdict = bound_by_caps(
        place.verdict,
        here,
        units=question.units,
        cluster=place.cluster.slug,
        running_units=running,
    )
    return replace(place, verdict=verdict, quota_caps=here)


def _is_uncertain(place: _ClusterAnswer, question: StartQuestion) -> bool:
    sure = certain_headroom_of(place.quota_caps)
    return place.verdict.fits and sure is not None and sure < question.units


def _concerns(limit: LimitInForce, question: StartQuestion) -> bool:
    """Whether a limit is the organization's, the project's or the user's own."""
    if limit.project_id not in {None, question.project.pk}:
        return False
    return limit.username is None or limit.username == question.username


def _is_suspended(own: Sequence[LimitInForce], question: StartQuestion, *, at: datetime) -> bool:
    if any(limit.is_suspended for limit in own):
        return True
    if any(limit.project_id is not None for limit in own):
        return False
    return QuotaSuspension.objects.filter(
        Q(project=None) | Q(project=question.project),
        Q(end_at=None) | Q(end_at__gt=at),
        organization_id=question.project.organization_id,
        begin_at__lte=at,
    ).exists()


def _places(
    question: StartQuestion,
    own: Sequence[LimitInForce],
    pods: Sequence[PodNow],
    clusters: Sequence[ClusterHeadroom],
    *,
    is_suspended: bool,
    at: datetime,
) -> list[_ClusterAnswer]:
    tally = UseByLimit(pod.use for pod in pods)
    used_up = used_up_limit_ids(own, at=at)
    slugs = {cluster.cluster_id: cluster.slug for cluster in clusters}
    places = []
    candidates: Sequence[ClusterHeadroom | None] = clusters or (None,)
    for cluster in candidates:
        binding = sorted(
            (limit for limit in own if _binds(limit, question, cluster)), key=_admission_order
        )
        headrooms = tuple(
            _cluster_headroom(limit, question, tally, slugs, is_used_up=limit.limit_id in used_up)
            for limit in binding
        )
        verdict = judge_start(
            headrooms, units=question.units, is_governed=bool(own), is_suspended=is_suspended
        )
        places.append(_ClusterAnswer(cluster, tuple(binding), headrooms, verdict, quota_caps=()))
    return places


def _binds(limit: LimitInForce, question: StartQuestion, cluster: ClusterHeadroom | None) -> bool:
    here = {None} if cluster is None else {None, cluster.cluster_id}
    groups = {"", question.model_group} if question.model_group else {limit.model_group}
    return limit.size is question.size and limit.cluster_id in here and limit.model_group in groups


def _admission_order(limit: LimitInForce) -> tuple[int, bool, str]:
    return (SCOPE_ORDER.index(limit.scope), limit.cluster_id is not None, str(limit.limit_id))


def _cluster_headroom(
    limit: LimitInForce,
    question: StartQuestion,
    tally: UseByLimit,
    slugs: dict[UUID, str],
    *,
    is_used_up: bool,
) -> LimitHeadroom:
    taken = tally.taken(limit.key)
    units = limit.nominal_units
    if question.is_burst and units is not None:
        units = limit.burst_units
    organization = question.project.organization.slug
    project = organization if limit.project_id is None else question.project.slug
    return LimitHeadroom(
        limit_id=limit.limit_id,
        scope=limit.scope.value,
        holder=limit.username or project,
        model_group=limit.model_group,
        cluster="" if limit.cluster_id is None else slugs[limit.cluster_id],
        limit_units=units,
        used_units=taken.burst_units if question.is_burst else taken.held_units,
        reserved_units=0 if question.is_burst else taken.reserved_units,
        is_allowance_used=is_used_up,
    )


def _headroom_of(place: _ClusterAnswer) -> tuple[bool, bool, bool, int, bool]:
    """Rank a cluster: first where it surely fits, then by free units, then without a cap."""
    fits, free = place.verdict.fits, place.verdict.free_units
    return (fits, fits and not place.unread, free is None, free or 0, place.verdict.full is None)


def _when(
    question: StartQuestion,
    best: _ClusterAnswer,
    places: Iterable[_ClusterAnswer],
    pods: Sequence[PodNow],
    *,
    at: datetime,
) -> StartTime | None:
    """Return the estimate; None where a quota in the cluster blocks it.

    Its free units cannot be predicted: waiting pods count against it too.
    """
    places = [place for place in places if place.verdict.full is None]
    if best.verdict.full is not None or any(p.verdict.code not in WAITS for p in places):
        return None
    return start_time(
        [list(zip(place.limits, place.headrooms, strict=True)) for place in places],
        [pod for pod in pods if pod.use.is_burst == question.is_burst],
        units=question.units,
        is_burst=question.is_burst,
        at=at,
        next_month=_next_month(at),
    )


def _next_month(at: datetime) -> datetime:
    first = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)

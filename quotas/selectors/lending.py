"""Lending facts: what each project of an organization could lend, and which ones wait."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Q

from metering.domain.catalogue.units import GPUSize
from metering.domain.efficiency.rules import WasteThresholds
from metering.selectors.collection.usage import peak_units
from quotas.domain.lending import LendingCapacity, LoanBand, Wait
from quotas.domain.limits.tally import UseByLimit
from quotas.models import (
    LimitScope,
    LoanPolicy,
    LoanState,
    QuotaLimit,
    QuotaLoan,
    QuotaRequest,
    RequestState,
)
from quotas.selectors.admission.refusals import organizations_waiting, refused_lately
from quotas.selectors.headroom.forecast import PERCENTILE
from quotas.selectors.limits.in_force import LimitInForce, limits_in_force
from quotas.selectors.limits.units_now import units_now

Market = tuple[GPUSize, UUID | None]
"""What is lent: a size, in every cluster or in one; always of every model."""


@dataclass(frozen=True)
class LendingTerms:
    """Settings: priority classes of preemptible pods, and the period of idleness."""

    burst_classes: Collection[str]
    thresholds: WasteThresholds


@dataclass(frozen=True)
class MarketFacts:
    """The projects' limits of one market, the waiting projects, and the limits' holders."""

    capacities: Mapping[UUID, LendingCapacity]
    waits: tuple[Wait, ...]
    limit_ids: Mapping[UUID, UUID]


def loan_policy(organization_id: UUID) -> LoanPolicy:
    """Return what an organization has agreed, or the defaults, unsaved; one statement."""
    found = LoanPolicy.objects.filter(pk=organization_id).first()
    return found or LoanPolicy(organization_id=organization_id)


def band_of(policy: LoanPolicy) -> LoanBand:
    """Return the band of a policy."""
    return LoanBand(
        max_units=policy.max_units,
        max_days=policy.max_days,
        keep_free_percent=policy.keep_free_percent,
    )


def lending_organization_ids(*, at: datetime) -> list[UUID]:
    """Return the organizations with a waiting project or a proposed loan; three statements."""
    asked = QuotaRequest.objects.filter(state=RequestState.SUBMITTED)
    proposed = QuotaLoan.objects.filter(state=LoanState.PROPOSED)
    found: set[UUID] = set(organizations_waiting(at=at))
    for rows in (asked, proposed):
        found.update(rows.order_by().values_list("organization_id", flat=True).distinct())
    return sorted(found, key=str)


def due_loan_ids(*, at: datetime) -> list[UUID]:
    """Return the loans in force whose time is over, first to end first; one statement."""
    rows = QuotaLoan.objects.filter(state=LoanState.ACTIVE, end_at__lte=at)
    return list(rows.order_by("end_at", "pk").values_list("pk", flat=True))


def market_facts(
    organization_id: UUID, *, terms: LendingTerms, at: datetime, counts_requests: bool = True
) -> dict[Market, MarketFacts]:
    """Return the facts of every market of an organization; nine statements.

    Args:
        organization_id: Organization of the projects.
        terms: From the settings.
        at: Now, UTC.
        counts_requests: Whether an open quota request counts as waiting too; False for automatic
            loans: any lead can make a request, while a denied pod is an observed need.
    """
    limits = limits_in_force(at=at, organization_ids=[organization_id])
    tally = UseByLimit(
        units_now(at=at, organization_ids=[organization_id], burst_classes=terms.burst_classes)
    )
    peaks = peak_units(
        before=at.replace(minute=0, second=0, microsecond=0),
        hours=terms.thresholds.hoarding_hours,
        percent=PERCENTILE,
    )
    settled = _settled_limits(organization_id, terms=terms, at=at)
    borrowing = _borrowing(organization_id)
    own = [limit for limit in limits if _is_lendable(limit)]
    asked = _asked(organization_id, at=at) if counts_requests else {}
    wanted = _wanted(organization_id, own, tally, asked=asked, at=at)
    found = {}
    for market in {_market(limit) for limit in own}:
        here = [limit for limit in own if _market(limit) == market]
        found[market] = MarketFacts(
            capacities={
                _project(limit): _capacity(
                    limit,
                    limits,
                    tally=tally,
                    peak=peaks.get((_project(limit), limit.size), 0),
                    may_lend=limit.limit_id in settled,
                    borrowed=borrowing[_project(limit), market],
                )
                for limit in here
            },
            waits=tuple(
                Wait(_project(limit), wanted[limit.limit_id])
                for limit in here
                if wanted[limit.limit_id] and not limit.is_suspended
            ),
            limit_ids={_project(limit): limit.limit_id for limit in here},
        )
    return found


def _is_lendable(limit: LimitInForce) -> bool:
    return (
        limit.scope is LimitScope.PROJECT
        and limit.nominal_units is not None
        and not limit.model_group
    )


def _market(limit: LimitInForce) -> Market:
    return (limit.size, limit.cluster_id)


def _project(limit: LimitInForce) -> UUID:
    assert limit.project_id is not None  # noqa: S101 - Of scope project; narrows the type.
    return limit.project_id


def _settled_limits(organization_id: UUID, *, terms: LendingTerms, at: datetime) -> set[UUID]:
    """Return the limits that did not change during the period of idleness."""
    since = at - timedelta(hours=terms.thresholds.hoarding_hours)
    rows = QuotaLimit.objects.filter(
        organization_id=organization_id, scope=LimitScope.PROJECT, changed_at__lte=since
    )
    return set(rows.values_list("pk", flat=True))


def _borrowing(organization_id: UUID) -> Counter[tuple[UUID, Market]]:
    """Return what each project has by loans in force."""
    rows = QuotaLoan.objects.filter(organization_id=organization_id, state=LoanState.ACTIVE)
    borrowed: Counter[tuple[UUID, Market]] = Counter()
    for loan in rows:
        borrowed[loan.borrower_id, (GPUSize(loan.size), loan.cluster_id)] += loan.units
    return borrowed


def _capacity(
    limit: LimitInForce,
    limits: Iterable[LimitInForce],
    *,
    tally: UseByLimit,
    peak: int,
    may_lend: bool,
    borrowed: int,
) -> LendingCapacity:
    taken = tally.taken(limit.key)
    above = [
        one.nominal_units
        for one in limits
        if one.project_id is None and one.key.covers(limit.key) and one.nominal_units is not None
    ]
    users = [
        one
        for one in limits
        if one.user_id is not None
        and one.project_id == limit.project_id
        and limit.key.covers(one.key)
    ]
    return LendingCapacity(
        project_id=_project(limit),
        limit_units=limit.nominal_units or 0,
        taken_units=taken.held_units + taken.reserved_units,
        peak_units=peak,
        promised_units=_promised(limit, users),
        ceiling_units=min(above, default=None),
        # Borrowed units are not lent on.
        may_lend=may_lend and not borrowed,
        borrowed_units=borrowed,
    )


def _promised(limit: LimitInForce, users: Iterable[LimitInForce]) -> int:
    """Return what a project's limit must be at least, so that its users' limits still fit."""
    found = list(users)
    alike = sum(
        one.nominal_units or 0
        for one in found
        if (one.model_group, one.cluster_id) == (limit.model_group, limit.cluster_id)
    )
    largest = max((one.nominal_units or 0 for one in found), default=0)
    return max(largest, -(-100 * alike // limit.overcommit_percent))


Asked = tuple[UUID, str, UUID | None]
"""Project, size and cluster of a request."""


def _asked(organization_id: UUID, *, at: datetime) -> Mapping[Asked, int]:
    """Return the totals of submitted requests now; of several the largest.

    A request for a later or past time does not count as waiting now.
    """
    requests = QuotaRequest.objects.filter(
        Q(begin_at=None) | Q(begin_at__lte=at),
        Q(end_at=None) | Q(end_at__gt=at),
        organization_id=organization_id,
        state=RequestState.SUBMITTED,
        user=None,
        model_group="",
    )
    asked: dict[Asked, int] = {}
    for request in requests:
        key = request.project_id, request.size, request.cluster_id
        asked[key] = max(asked.get(key, 0), request.requested_units)
    return asked


def _wanted(
    organization_id: UUID,
    own: Iterable[LimitInForce],
    tally: UseByLimit,
    *,
    asked: Mapping[Asked, int],
    at: datetime,
) -> Counter[UUID]:
    """Return how many more units each limit's project wants: for waiting pods, or by request.

    An allowance of unit-hours that is used up is waited for, but no units make it larger.
    """
    wanted: Counter[UUID] = Counter()
    refusals = [
        one
        for one in refused_lately(at=at, organization_ids=[organization_id])
        if one.is_waiting and one.is_for_headroom
    ]
    for limit in own:
        taken = tally.taken(limit.key)
        refused = sum(
            one.units
            for one in refusals
            if (one.project_id, one.size) == (limit.project_id, limit.size)
            and limit.cluster_id in {None, one.cluster_id}
        )
        key = (_project(limit), limit.size.value, limit.cluster_id)
        more = asked.get(key, 0) - taken.held_units - taken.reserved_units
        wanted[limit.limit_id] = max(refused, more, 0)
    return wanted

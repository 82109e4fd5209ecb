"""The only way from an entry point to an object of quotas: fetch with permission.

Which role holds which capability is in `tenants.domain.identity.roles`.
"""

from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from quotas.models import (
    AdmissionRefusal,
    EnforcementTarget,
    IsolationPolicy,
    LimitScope,
    LoanPolicy,
    PreemptionPlan,
    PreemptionPolicy,
    ProtectedWindow,
    QuotaGrant,
    QuotaLimit,
    QuotaLoan,
    QuotaRequest,
    QuotaSuspension,
    RequestPolicy,
    Reservation,
)
from tenants.access import (
    READ_CLUSTER,
    Row,
    build_access,
    build_read_access,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
    scope_to_organizations,
    scope_to_platform,
    scope_to_projects,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identity.granting import forbidden
from tenants.domain.identity.roles import RoleScope
from tenants.models import Cluster, Organization, Project
from tenants.models.organization import LifecycleState

READ_LIMIT: Final = "quotas:limit:read"
WRITE_LIMIT: Final = "quotas:limit:write"
READ_REQUEST: Final = "quotas:request:read"
SUBMIT_REQUEST: Final = "quotas:request:submit"
DECIDE_REQUEST: Final = "quotas:request:decide"
REVIEW_REQUEST: Final = "quotas:request:review"
FUND_REQUEST: Final = "quotas:request:fund"
READ_ISOLATION: Final = "quotas:isolation:read"
WRITE_ISOLATION: Final = "quotas:isolation:write"
READ_ENFORCEMENT: Final = "quotas:enforcement:read"
WRITE_ENFORCEMENT: Final = "quotas:enforcement:write"
READ_PREEMPTION: Final = "quotas:preemption:read"
PLAN_PREEMPTION: Final = "quotas:preemption:plan"
WRITE_PREEMPTION: Final = "quotas:preemption:write"
READ_RESERVATION: Final = "quotas:reservation:read"
READ_SUSPENSION: Final = "quotas:suspension:read"
WRITE_SUSPENSION: Final = "quotas:suspension:write"
READ_PRICE: Final = "billing:price:read"
"""Billing's capability; without it over a project, an actor does not see its quota costs."""


def limits_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLimit]:
    """Return the limits over which an actor holds a capability.

    Reading an organization's own limit needs a role over the organization; writing it needs a
    platform role, so that a tenant cannot raise its own ceiling. Limits inside a project need a
    role over the project.
    """
    rows = QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
    return _scope_to_limits(rows, actor, capability)


def grants_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaGrant]:
    """Return the grants on limits over which an actor holds a capability."""
    rows = QuotaGrant.objects.select_related("organization", "project", "limit")
    return _scope_to_limits(rows, actor, capability)


def suspensions_visible_to(
    actor: Actor, capability: str = READ_SUSPENSION
) -> QuerySet[QuotaSuspension]:
    """Return the suspensions of the organizations over which an actor holds a capability."""
    rows = QuotaSuspension.objects.select_related("organization", "project")
    return scope_to_organizations(rows, actor, capability)


def organizations_with_limits(actor: Actor) -> QuerySet[Organization]:
    """Return the organizations of which an actor may read a limit: all of them, or a project's."""
    whole = organizations_visible_to(actor, READ_LIMIT)
    part = projects_visible_to(actor, READ_LIMIT).values("organization_id")
    return Organization.objects.filter(Q(pk__in=whole.values("pk")) | Q(pk__in=part))


def hidden_scopes(
    actor: Actor, *, organization_id: UUID | None, project_id: UUID | None
) -> frozenset[str]:
    """Return the scopes of limits around a project whose figures an actor may not read."""
    if actor.may(READ_LIMIT, organization_id=organization_id):
        return frozenset()
    if actor.may(READ_LIMIT, organization_id=organization_id, project_id=project_id):
        return frozenset({LimitScope.ORGANIZATION.value})
    return frozenset(scope.value for scope in LimitScope)


def loans_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLoan]:
    """Return the loans of the projects over which an actor holds a capability, on either side."""
    projects = projects_visible_to(actor, capability)
    return QuotaLoan.objects.select_related(
        "organization", "lender", "borrower", "decided_by"
    ).filter(Q(lender__in=projects) | Q(borrower__in=projects))


def loan_policies_visible_to(actor: Actor) -> QuerySet[LoanPolicy]:
    """Return what was agreed in the organizations of which an actor may read a limit."""
    return LoanPolicy.objects.filter(organization__in=organizations_with_limits(actor))


def requests_visible_to(actor: Actor, capability: str = READ_REQUEST) -> QuerySet[QuotaRequest]:
    """Return the quota requests of the projects over which an actor holds a capability.

    With all related rows, in a fixed number of statements.
    """
    rows = QuotaRequest.objects.select_related(
        "organization", "project", "user", "cluster", "requested_by", "decided_by"
    ).prefetch_related("steps__decided_by", "comments__author")
    return scope_to_projects(rows, actor, capability)


def request_policies_visible_to(actor: Actor) -> QuerySet[RequestPolicy]:
    """Return the policies of the organizations whose requests an actor reads, and that for all.

    An actor who can read no request gets no policy, not even the platform's.
    """
    rows = RequestPolicy.objects.select_related("organization")
    projects = projects_visible_to(actor, READ_REQUEST)
    if is_platform_wide(actor, READ_REQUEST):
        return rows
    if not actor.grants_for(READ_REQUEST):
        return rows.none()
    return rows.filter(
        Q(organization=None) | Q(organization__in=projects.values("organization_id"))
    )


def is_cost_visible(actor: Actor, *, organization_id: UUID, project_id: UUID) -> bool:
    """Whether an actor may read a project's quota costs: a total reveals the unit price."""
    return actor.may(READ_PRICE, organization_id=organization_id, project_id=project_id)


def reservations_visible_to(actor: Actor) -> QuerySet[Reservation]:
    """Return the reservations of the projects that an actor may read them of."""
    rows = Reservation.objects.select_related("cluster", "project")
    return scope_to_projects(rows, actor, READ_RESERVATION)


def refusals_visible_to(actor: Actor) -> QuerySet[AdmissionRefusal]:
    """Return the refusals of the projects that an actor may read reservations of.

    Refusals in namespaces of no project need a role that reads the whole platform.
    """
    rows = AdmissionRefusal.objects.select_related("cluster", "project")
    return scope_to_projects(rows, actor, READ_RESERVATION)


def targets_visible_to(
    actor: Actor, capability: str = READ_ENFORCEMENT
) -> QuerySet[EnforcementTarget]:
    """Return every enforcement target to an actor of the platform, none to others."""
    rows = EnforcementTarget.objects.select_related("cluster", "project")
    return scope_to_platform(rows, actor, capability)


def policies_visible_to(
    actor: Actor, capability: str = READ_ISOLATION
) -> QuerySet[IsolationPolicy]:
    """Return the isolation policies over which an actor holds a capability.

    A reader of a project's policies also reads those of its organization: they bind it too.
    """
    rows = IsolationPolicy.objects.select_related("organization", "project")
    if is_platform_wide(actor, capability):
        return rows
    projects = projects_visible_to(actor, capability)
    whole = Q(organization__in=organizations_visible_to(actor, capability))
    if capability == READ_ISOLATION:
        whole |= Q(organization__in=projects.values("organization_id"))
    return rows.filter(Q(project__in=projects) | Q(project=None) & whole)


def plans_visible_to(actor: Actor, capability: str = READ_PREEMPTION) -> QuerySet[PreemptionPlan]:
    """Return the preemption plans of the organizations over which an actor holds a capability."""
    rows = PreemptionPlan.objects.select_related("organization")
    return scope_to_organizations(rows, actor, capability)


def windows_visible_to(
    actor: Actor, capability: str = READ_PREEMPTION
) -> QuerySet[ProtectedWindow]:
    """Return the protected windows of organizations over which an actor holds a capability."""
    rows = ProtectedWindow.objects.select_related("organization", "project")
    return scope_to_organizations(rows, actor, capability)


def preemption_policies_visible_to(
    actor: Actor, capability: str = READ_PREEMPTION
) -> QuerySet[PreemptionPolicy]:
    """Return the preemption policies of organizations over which an actor holds a capability."""
    rows = PreemptionPolicy.objects.select_related("organization")
    return scope_to_organizations(rows, actor, capability)


_access_limit: Final = build_access(limits_visible_to)
_access_grant: Final = build_access(grants_visible_to)
_access_target: Final = build_access(targets_visible_to)
access_suspension: Final = build_access(suspensions_visible_to)
access_loan: Final = build_access(loans_visible_to)
access_request: Final = build_access(requests_visible_to)
access_reservation: Final = build_read_access(reservations_visible_to)
access_refusal: Final = build_read_access(refusals_visible_to)
access_policy: Final = build_access(policies_visible_to)
access_plan: Final = build_access(plans_visible_to)
access_window: Final = build_access(windows_visible_to)
access_preemption_policy: Final = build_access(preemption_policies_visible_to)


def access_target(
    actor: Actor, target_id: int, capability: str = READ_ENFORCEMENT
) -> EnforcementTarget:
    """Return an enforcement target over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return _access_target(actor, target_id, capability)


def access_limit(actor: Actor, limit_id: UUID, capability: str) -> QuotaLimit:
    """Return a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    try:
        return _access_limit(actor, limit_id, capability)
    except ForbiddenError as error:
        rows = QuotaLimit.objects.filter(pk=limit_id, project=None)
        raise _who_may(error, capability, is_whole=rows.exists()) from error


def access_grant(actor: Actor, grant_id: UUID, capability: str) -> QuotaGrant:
    """Return a grant on a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    try:
        return _access_grant(actor, grant_id, capability)
    except ForbiddenError as error:
        rows = QuotaGrant.objects.filter(pk=grant_id, project=None)
        raise _who_may(error, capability, is_whole=rows.exists()) from error


def access_cluster_of(actor: Actor, organization: Organization, slug: str) -> Cluster:
    """Return an open cluster on which the organization has namespaces, by its slug.

    An actor with a platform role may name every open cluster.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    rows = Cluster.objects.filter(slug=slug, state=LifecycleState.ACTIVE)
    if not is_platform_wide(actor, READ_CLUSTER):
        rows = rows.filter(bindings__project__organization=organization).distinct()
    cluster = rows.first()
    if cluster is None:
        raise NotFoundError(
            "There is no such cluster.",
            field="cluster",
            remedy="Name the slug of a cluster the organization has namespaces on.",
        )
    return cluster


def access_person(organization: Organization, username: str) -> User:
    """Return a person who has a role in an organization or one of its projects.

    Other users are not found: a limit must not reveal the accounts of the platform.

    Raises:
        NotFoundError: No user of that name has a role there.
    """
    projects = Project.objects.filter(organization=organization)
    person = (
        User.objects.filter(username=username)
        .filter(Q(memberships__organization=organization) | Q(memberships__project__in=projects))
        .distinct()
        .first()
    )
    if person is None:
        raise NotFoundError(
            "No user of that name has a role in the organization.",
            field="user",
            remedy="Give the person a role in the project first.",
        )
    return person


def access_request_to_decide(actor: Actor, request_id: UUID) -> QuotaRequest:
    """Return a quota request that an actor may decide at some level; the service checks which.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor decides at none.
    """
    deciding = (REVIEW_REQUEST, DECIDE_REQUEST, FUND_REQUEST)
    held = [
        capability for capability in deciding if actor.is_system or actor.grants_for(capability)
    ]
    for capability in held:
        found = requests_visible_to(actor, capability).filter(pk=request_id).first()
        if found is not None:
            return found
    return access_request(actor, request_id, DECIDE_REQUEST)


def _scope_to_limits(rows: QuerySet[Row], actor: Actor, capability: str) -> QuerySet[Row]:
    if is_platform_wide(actor, capability):
        return rows
    inside = Q(project__in=projects_visible_to(actor, capability))
    if capability == WRITE_LIMIT:
        return rows.filter(inside)
    organizations = organizations_visible_to(actor, capability)
    return rows.filter(inside | Q(project=None, organization__in=organizations))


def _who_may(error: ForbiddenError, capability: str, *, is_whole: bool) -> ForbiddenError:
    """Return an error with the required role: a platform role for an organization's own limit."""
    if capability != WRITE_LIMIT or not is_whole:
        return error
    return forbidden(capability, reach={RoleScope.PLATFORM})

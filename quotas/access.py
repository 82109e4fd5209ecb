"""The only way from a door to an object of quotas: fetch with permission."""

from typing import Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from quotas.models import (
    AdmissionRefusal,
    EnforcementTarget,
    IsolationPolicy,
    LoanPolicy,
    PreemptionPlan,
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
    access_row,
    is_platform_wide,
    organizations_visible_to,
    projects_visible_to,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
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


def limits_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLimit]:
    """Return the limits over which an actor holds a capability.

    An organization's own limit takes a role over the organization, and to write it one over the
    platform: nobody raises their own ceiling. The limits inside a project take a role over that.
    """
    rows = QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
    if is_platform_wide(actor, capability):
        return rows
    inside = Q(project__in=projects_visible_to(actor, capability))
    if capability == WRITE_LIMIT:
        return rows.filter(inside)
    organizations = organizations_visible_to(actor, capability)
    return rows.filter(inside | Q(project=None, organization__in=organizations))


def grants_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaGrant]:
    """Return the grants on limits over which an actor holds a capability."""
    rows = QuotaGrant.objects.select_related("organization", "project", "limit")
    if is_platform_wide(actor, capability):
        return rows
    inside = Q(project__in=projects_visible_to(actor, capability))
    if capability == WRITE_LIMIT:
        return rows.filter(inside)
    organizations = organizations_visible_to(actor, capability)
    return rows.filter(inside | Q(project=None, organization__in=organizations))


def suspensions_visible_to(
    actor: Actor, capability: str = READ_SUSPENSION
) -> QuerySet[QuotaSuspension]:
    """Return the suspensions of the organizations over which an actor holds a capability."""
    rows = QuotaSuspension.objects.select_related("organization", "project")
    return rows.filter(organization__in=organizations_visible_to(actor, capability))


def organizations_with_limits(actor: Actor) -> QuerySet[Organization]:
    """Return the organizations of which an actor may read a limit: all of them, or a project's."""
    whole = organizations_visible_to(actor, READ_LIMIT)
    part = projects_visible_to(actor, READ_LIMIT).values("organization_id")
    return Organization.objects.filter(Q(pk__in=whole.values("pk")) | Q(pk__in=part))


def requests_visible_to(actor: Actor, capability: str = READ_REQUEST) -> QuerySet[QuotaRequest]:
    """Return the quota requests of the projects over which an actor holds a capability."""
    return _requests().filter(project__in=projects_visible_to(actor, capability))


def targets_visible_to(
    actor: Actor, capability: str = READ_ENFORCEMENT
) -> QuerySet[EnforcementTarget]:
    """Return every enforcement target to an actor of the platform, none to others."""
    rows = EnforcementTarget.objects.select_related("cluster", "project")
    return rows if is_platform_wide(actor, capability) else rows.none()


def policies_visible_to(
    actor: Actor, capability: str = READ_ISOLATION
) -> QuerySet[IsolationPolicy]:
    """Return the isolation policies over which an actor holds a capability.

    Whoever may read a project's may read those of its organization, which bind it as well.
    """
    rows = IsolationPolicy.objects.select_related("organization", "project")
    if is_platform_wide(actor, capability):
        return rows
    projects = projects_visible_to(actor, capability)
    whole = Q(organization__in=organizations_visible_to(actor, capability))
    if capability == READ_ISOLATION:
        whole |= Q(organization__in=projects.values("organization_id"))
    return rows.filter(Q(project__in=projects) | Q(project=None) & whole)


def access_policy(actor: Actor, policy_id: UUID, capability: str) -> IsolationPolicy:
    """Return an isolation policy over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        IsolationPolicy.objects.select_related("organization", "project"),
        policy_id,
        allowed=policies_visible_to(actor, capability),
        visible=policies_visible_to(actor),
        capability=capability,
    )


def access_limit(actor: Actor, limit_id: UUID, capability: str) -> QuotaLimit:
    """Return a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaLimit.objects.select_related("organization", "project", "user", "cluster"),
        limit_id,
        allowed=limits_visible_to(actor, capability),
        visible=limits_visible_to(actor),
        capability=capability,
    )


def access_grant(actor: Actor, grant_id: UUID, capability: str) -> QuotaGrant:
    """Return a grant on a limit over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaGrant.objects.select_related("organization", "project", "limit"),
        grant_id,
        allowed=grants_visible_to(actor, capability),
        visible=grants_visible_to(actor),
        capability=capability,
    )


def access_suspension(actor: Actor, suspension_id: UUID, capability: str) -> QuotaSuspension:
    """Return a suspension of an organization over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaSuspension.objects.select_related("organization", "project"),
        suspension_id,
        allowed=suspensions_visible_to(actor, capability),
        visible=suspensions_visible_to(actor),
        capability=capability,
    )


def access_cluster_of(actor: Actor, organization: Organization, slug: str) -> Cluster:
    """Return an open cluster by its slug: one that an organization has namespaces on.

    Who runs the platform sees every cluster; others only those they are on already.

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


def access_request(actor: Actor, request_id: UUID, capability: str) -> QuotaRequest:
    """Return a quota request over whose project an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        _requests(),
        request_id,
        allowed=requests_visible_to(actor, capability),
        visible=requests_visible_to(actor),
        capability=capability,
    )


def access_request_to_decide(actor: Actor, request_id: UUID) -> QuotaRequest:
    """Return a quota request that an actor decides at some level; the service says at which.

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


def request_policies_visible_to(actor: Actor) -> QuerySet[RequestPolicy]:
    """Return the policies of the organizations whose requests an actor reads, and that for all.

    Whoever reads no request sees none: not even the platform's.
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


def _requests() -> QuerySet[QuotaRequest]:
    """Return requests with everything that is told of them; the same statements for any number."""
    return QuotaRequest.objects.select_related(
        "organization", "project", "user", "cluster", "requested_by", "decided_by"
    ).prefetch_related("steps__decided_by", "comments__author")


def access_target(
    actor: Actor, target_id: int, capability: str = READ_ENFORCEMENT
) -> EnforcementTarget:
    """Return an enforcement target over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        EnforcementTarget.objects.select_related("cluster", "project"),
        target_id,
        allowed=targets_visible_to(actor, capability),
        visible=targets_visible_to(actor),
        capability=capability,
    )


def access_person(organization: Organization, username: str) -> User:
    """Return a person who has a role in an organization or one of its projects.

    Others do not exist here: a limit must not tell who has an account on the platform.

    Raises:
        NotFoundError: Nobody of that name has a role there.
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
            "Nobody of that name has a role in the organization.",
            field="user",
            remedy="Give the person a role in the project first.",
        )
    return person


def plans_visible_to(actor: Actor, capability: str = READ_PREEMPTION) -> QuerySet[PreemptionPlan]:
    """Return the preemption plans of the organizations over which an actor holds a capability."""
    return PreemptionPlan.objects.select_related("organization").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


def windows_visible_to(
    actor: Actor, capability: str = READ_PREEMPTION
) -> QuerySet[ProtectedWindow]:
    """Return the protected windows of organizations over which an actor holds a capability."""
    return ProtectedWindow.objects.select_related("organization", "project").filter(
        organization__in=organizations_visible_to(actor, capability)
    )


def access_plan(actor: Actor, plan_id: UUID, capability: str) -> PreemptionPlan:
    """Return a preemption plan over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        PreemptionPlan.objects.select_related("organization"),
        plan_id,
        allowed=plans_visible_to(actor, capability),
        visible=plans_visible_to(actor),
        capability=capability,
    )


def access_window(actor: Actor, window_id: UUID, capability: str) -> ProtectedWindow:
    """Return a protected window over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        ProtectedWindow.objects.select_related("organization", "project"),
        window_id,
        allowed=windows_visible_to(actor, capability),
        visible=windows_visible_to(actor),
        capability=capability,
    )


def loans_visible_to(actor: Actor, capability: str = READ_LIMIT) -> QuerySet[QuotaLoan]:
    """Return the loans of the projects over which an actor holds a capability, on either side."""
    projects = projects_visible_to(actor, capability)
    return QuotaLoan.objects.select_related(
        "organization", "lender", "borrower", "decided_by"
    ).filter(Q(lender__in=projects) | Q(borrower__in=projects))


def loan_policies_visible_to(actor: Actor) -> QuerySet[LoanPolicy]:
    """Return what was agreed in the organizations of which an actor may read a limit."""
    return LoanPolicy.objects.filter(organization__in=organizations_with_limits(actor))


def access_loan(actor: Actor, loan_id: UUID, capability: str) -> QuotaLoan:
    """Return a loan between projects over which an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        QuotaLoan.objects.select_related("organization", "lender", "borrower", "decided_by"),
        loan_id,
        allowed=loans_visible_to(actor, capability),
        visible=loans_visible_to(actor),
        capability=capability,
    )


def reservations_visible_to(actor: Actor) -> QuerySet[Reservation]:
    """Return the reservations of the projects that an actor may read them of."""
    rows = Reservation.objects.select_related("cluster", "project")
    if is_platform_wide(actor, READ_RESERVATION):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, READ_RESERVATION))


def refusals_visible_to(actor: Actor) -> QuerySet[AdmissionRefusal]:
    """Return the refusals of the projects that an actor may read reservations of.

    Those in namespaces that no project has are for who reads the whole platform.
    """
    rows = AdmissionRefusal.objects.select_related("cluster", "project")
    if is_platform_wide(actor, READ_RESERVATION):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, READ_RESERVATION))


def access_reservation(actor: Actor, reservation_id: int) -> Reservation:
    """Return a reservation that an actor may read.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    rows = reservations_visible_to(actor)
    return access_row(
        Reservation.objects.select_related("cluster", "project"),
        reservation_id,
        allowed=rows,
        visible=rows,
        capability=READ_RESERVATION,
    )


def access_refusal(actor: Actor, refusal_id: int) -> AdmissionRefusal:
    """Return a refusal that an actor may read.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    rows = refusals_visible_to(actor)
    return access_row(
        AdmissionRefusal.objects.select_related("cluster", "project"),
        refusal_id,
        allowed=rows,
        visible=rows,
        capability=READ_RESERVATION,
    )

"""Quota requests and the policies that route them: fetched with permission."""

from uuid import UUID

from django.db.models import Q, QuerySet

from quotas.access.capabilities import (
    DECIDE_REQUEST,
    FUND_REQUEST,
    READ_PRICE,
    READ_REQUEST,
    REVIEW_REQUEST,
)
from quotas.models import QuotaRequest, RequestPolicy
from tenants.access import access_row, is_platform_wide, projects_visible_to
from tenants.domain.actors import Actor


def requests_visible_to(actor: Actor, capability: str = READ_REQUEST) -> QuerySet[QuotaRequest]:
    """Return the quota requests of the projects over which an actor holds a capability."""
    return _requests().filter(project__in=projects_visible_to(actor, capability))


def access_request(actor: Actor, request_id: UUID, capability: str) -> QuotaRequest:
    """Return a quota request over whose project an actor holds a capability.

    Raises:
        NotFoundError: It does not exist for this actor.
        ForbiddenError: The actor sees it without holding the capability.
    """
    return access_row(
        _requests(),
        request_id,
        visible_to=requests_visible_to,
        actor=actor,
        capability=capability,
    )


def is_cost_visible(actor: Actor, *, organization_id: UUID, project_id: UUID) -> bool:
    """Whether an actor may read a project's quota costs: a total reveals the unit price."""
    return actor.may(READ_PRICE, organization_id=organization_id, project_id=project_id)


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


def _requests() -> QuerySet[QuotaRequest]:
    """Return requests with all related rows, in a fixed number of statements."""
    return QuotaRequest.objects.select_related(
        "organization", "project", "user", "cluster", "requested_by", "decided_by"
    ).prefetch_related("steps__decided_by", "comments__author")

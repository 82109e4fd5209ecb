"""Row locks of quotas, in the product's one order: organization -> project -> user -> the rest."""

from collections.abc import Collection
from uuid import UUID

from django.contrib.auth.models import User

from quotas.models import QuotaRequest
from tenants.models import Organization, Project
from tenants.selectors.locks import lock_in_order, lock_rows


def lock_limit_path(*, organization_id: UUID, project_id: UUID | None, user_id: int | None) -> None:
    """Lock the holder of a limit and those above, until the transaction ends.

    The organization is locked first, so all changes of one organization's limits are serialized.
    """
    lock_limit_paths(
        organization_id=organization_id,
        project_ids=[] if project_id is None else [project_id],
        user_ids=[] if user_id is None else [user_id],
    )


def lock_limit_paths(
    *, organization_id: UUID, project_ids: Collection[UUID], user_ids: Collection[int]
) -> None:
    """Lock the holders of several limits of one organization, in the same order."""
    lock_in_order(
        Organization.objects.filter(pk=organization_id),
        Project.objects.filter(pk__in=project_ids),
        User.objects.filter(pk__in=user_ids),
    )


def lock_request(request_id: UUID) -> QuotaRequest | None:
    """Lock a request's organization, its project and itself; None when there is no such request."""
    found = (
        QuotaRequest.objects.filter(pk=request_id).values("organization_id", "project_id").first()
    )
    if found is None:
        return None
    lock_limit_path(
        organization_id=found["organization_id"], project_id=found["project_id"], user_id=None
    )
    (request,) = lock_rows(QuotaRequest.objects.filter(pk=request_id))
    return request


def lock_holders_of(request: QuotaRequest) -> None:
    """Lock the holder of the limit that a request changes, and those above."""
    lock_limit_path(
        organization_id=request.organization_id,
        project_id=request.project_id,
        user_id=request.user_id,
    )

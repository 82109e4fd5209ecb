"""Places of limits: which row a limit is, found and locked in one order."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from metering.domain.gpu_sizes import GPUSize
from quotas.models import QuotaLimit
from quotas.selectors.locks import lock_limit_path, lock_limit_paths
from quotas.services.holders import Holder
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import ProjectClosedError
from tenants.models import Cluster, Project
from tenants.models.organization import LifecycleState


@dataclass(frozen=True)
class LimitPlace:
    """Which row a limit is: whom it binds, and of what."""

    holder: Holder
    size: GPUSize
    model_group: str = ""
    cluster: Cluster | None = None

    def columns(self) -> dict[str, Any]:
        """Return the columns that make the row the only one of its kind."""
        return {
            "organization": self.holder.organization,
            "project": self.holder.project,
            "user": self.holder.user,
            "size": self.size.value,
            "model_group": self.model_group,
            "cluster": self.cluster,
        }


def place_of(limit: QuotaLimit) -> LimitPlace:
    """Return which row a limit is."""
    holder = Holder(limit.organization, limit.project, limit.user)
    return LimitPlace(holder, GPUSize(limit.size), limit.model_group, limit.cluster)


def lock_holder(holder: Holder) -> None:
    """Lock whom a limit binds and those above, until the transaction ends."""
    lock_limit_path(
        organization_id=holder.organization.pk,
        project_id=holder.project_id,
        user_id=None if holder.user is None else holder.user.pk,
    )


def require_open(holder: Holder) -> None:
    """Refuse a project that is closed.

    Raises:
        ProjectClosedError: It is.
    """
    if holder.project is None:
        return
    if Project.objects.filter(pk=holder.project.pk, state=LifecycleState.CLOSED).exists():
        raise ProjectClosedError(f"{holder.project.name} is closed.", field="project")


def find_limit(place: LimitPlace) -> QuotaLimit | None:
    """Return the limit that is set there; None when it is not."""
    return (
        QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
        .filter(**place.columns())
        .first()
    )


def holder_of_limit(limit_id: UUID) -> Holder:
    """Return whom a limit binds.

    Raises:
        NotFoundError: There is no such limit.
    """
    (limit,) = _limits([limit_id])
    return place_of(limit).holder


def lock_limits(limit_ids: Collection[UUID]) -> dict[UUID, QuotaLimit]:
    """Lock whom several limits of one organization bind, and return them as they are then.

    Raises:
        NotFoundError: One is not there.
        ValueError: They are not of one organization.
    """
    holders = [place_of(limit).holder for limit in _limits(limit_ids)]
    if len({holder.organization.pk for holder in holders}) != 1:
        raise ValueError("Lock the limits of one organization at a time.")
    lock_limit_paths(
        organization_id=holders[0].organization.pk,
        project_ids=[holder.project.pk for holder in holders if holder.project is not None],
        user_ids=[holder.user.pk for holder in holders if holder.user is not None],
    )
    return {limit.pk: limit for limit in _limits(limit_ids)}


def _limits(limit_ids: Collection[UUID]) -> list[QuotaLimit]:
    wanted = set(limit_ids)
    rows = QuotaLimit.objects.select_related("organization", "project", "user", "cluster")
    found = list(rows.filter(pk__in=wanted))
    if len(found) != len(wanted):
        raise NotFoundError("There is no such quota limit.", field="limit")
    return found

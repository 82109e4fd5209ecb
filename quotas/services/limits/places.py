"""Rows of limits: find the holder, lock rows in one order, and open the counter."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection

from metering.domain.catalogue.units import GPUSize
from quotas.domain.errors import QuotaScopeError
from quotas.models import LimitScope, QuotaCounter, QuotaLimit
from quotas.selectors.locks import lock_limit_path, lock_limit_paths
from tenants.access import require_capability
from tenants.domain.actors import Actor
from tenants.domain.errors import NotFoundError
from tenants.domain.refusals import ProjectClosedError
from tenants.models import Cluster, Organization, Project
from tenants.models.organization import LifecycleState

WRITE: Final = "quotas:limit:write"


@dataclass(frozen=True)
class LimitHolder:
    """Holder of a limit: an organization, a project of it, or a user inside a project."""

    organization: Organization
    project: Project | None = None
    user: User | None = None

    @property
    def scope(self) -> LimitScope:
        """The scope the holder stands for."""
        if self.user is not None:
            return LimitScope.USER
        return LimitScope.ORGANIZATION if self.project is None else LimitScope.PROJECT

    @property
    def project_id(self) -> UUID | None:
        """The project's id; None for an organization."""
        return None if self.project is None else self.project.pk


def holder_of(
    *, scope: str, organization: Organization, project: Project | None, user: User | None
) -> LimitHolder:
    """Return the holder of a new limit.

    Raises:
        QuotaScopeError: The scope does not fit what is named, or the project is another's.
    """
    holder = LimitHolder(organization, project, user)
    if scope != holder.scope or (user is not None and project is None):
        raise QuotaScopeError(
            f"A limit of scope {scope} does not fit what is named.", field="scope"
        )
    if project is not None and project.organization_id != organization.pk:
        raise QuotaScopeError("The project belongs to another organization.", field="project")
    return holder


def require_write(*, holder: LimitHolder, actor: Actor) -> None:
    """Raise if an actor may not write a holder's limits.

    Raises:
        ForbiddenError: The actor lacks the role. An organization's limit needs a platform role, so
            that a tenant cannot raise its own ceiling; every limit below needs a role over the
            organization.
    """
    if holder.project is None:
        require_capability(actor, WRITE)
    else:
        require_capability(
            actor,
            WRITE,
            organization_id=holder.organization.pk,
            project_id=holder.project.pk,
        )


@dataclass(frozen=True)
class LimitPlace:
    """Key of a limit: its holder and selector."""

    holder: LimitHolder
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
    holder = LimitHolder(limit.organization, limit.project, limit.user)
    return LimitPlace(holder, GPUSize(limit.size), limit.model_group, limit.cluster)


def lock_holder(holder: LimitHolder) -> None:
    """Lock the holder of a limit and those above, until the transaction ends."""
    lock_limit_path(
        organization_id=holder.organization.pk,
        project_id=holder.project_id,
        user_id=None if holder.user is None else holder.user.pk,
    )


def require_open(holder: LimitHolder) -> None:
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


def holder_of_limit(limit_id: UUID) -> LimitHolder:
    """Return the holder of a limit.

    Raises:
        NotFoundError: There is no such limit.
    """
    (limit,) = _limits([limit_id])
    return place_of(limit).holder


def lock_limits(limit_ids: Collection[UUID]) -> dict[UUID, QuotaLimit]:
    """Lock the holders of several limits of one organization, and return the limits as locked.

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


def open_counter(*, limit: QuotaLimit, at: datetime) -> QuotaCounter:
    """Open the counter of a limit with what counts against it now; an open one stays as it is.

    Called in the transaction that makes the limit. It leaves no audit entry: the limit's own entry
    covers it.

    Args:
        limit: A saved limit.
        at: When, UTC.

    Raises:
        RuntimeError: Called outside a transaction, where the lock would end at once.
    """
    _require_transaction()
    _call("SELECT quotas_open_counters(%s)", limit.organization_id)
    counter = QuotaCounter.objects.get(pk=limit.pk)
    counter.checked_at = at
    counter.save(update_fields=["checked_at"])
    return counter


def lock_counters(*, organization_id: UUID) -> None:
    """Block admission in an organization until the transaction ends.

    Taken before a change takes effect, so that later admissions see it; and before a limit is
    deleted, whose counter is deleted with it.

    Raises:
        RuntimeError: Called outside a transaction, where the lock would end at once.
    """
    _require_transaction()
    _call("SELECT pg_advisory_xact_lock(quotas_lock_key(%s))", organization_id)


def _require_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("Counters are locked inside a transaction.")


def _call(statement: str, organization_id: UUID) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, [organization_id])

"""Access to costs: those of projects whose charges an actor reads, and its own in others."""

from datetime import UTC, date, datetime, time
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from billing.access import READ_CHARGE, READ_OWN_CHARGE
from billing.domain.costs import CostDimension, CostQuery
from billing.models import ChangedHour, CostView, DailyCost
from tenants.access import is_platform_wide, projects_visible_to, scope_to_organizations
from tenants.domain.actors import Actor, ActorKind
from tenants.models import Cluster, NamespaceBinding


def daily_costs_visible_to(actor: Actor) -> QuerySet[DailyCost]:
    """Return the costs of projects whose charges an actor reads, and its own in other projects."""
    rows = DailyCost.objects.all()
    if is_platform_wide(actor, READ_CHARGE):
        return rows
    return rows.filter(_of_read_projects(actor) | _of_own_use(actor))


def changed_hours_visible_to(actor: Actor) -> QuerySet[ChangedHour]:
    """Return the hours to add up of the organizations whose charges an actor reads."""
    return scope_to_organizations(ChangedHour.objects.all(), actor, READ_CHARGE)


def cost_views_visible_to(actor: Actor) -> QuerySet[CostView]:
    """Return the views of costs that a person has saved; others see none of them."""
    return CostView.objects.filter(person=actor.person_id)


def clusters_in_use(actor: Actor, query: CostQuery) -> QuerySet[Cluster]:
    """Return the clusters whose hours the costs of a query are made of.

    Those are all clusters for an actor of the platform. For others they are the clusters in which
    projects whose costs they read have a namespace in these days.
    """
    wanted = query.filters or {}
    rows = Cluster.objects.all()
    if CostDimension.CLUSTER in wanted:
        rows = rows.filter(pk=wanted[CostDimension.CLUSTER])
    if is_platform_wide(actor, READ_CHARGE):
        return rows
    bindings = NamespaceBinding.objects.filter(
        _of_read_projects(actor) | Q(project__in=_own_projects(actor)),
        valid__overlap=(_midnight(query.first), _midnight(query.end)),
    )
    if CostDimension.ORGANIZATION in wanted:
        bindings = bindings.filter(project__organization=UUID(wanted[CostDimension.ORGANIZATION]))
    if CostDimension.PROJECT in wanted:
        bindings = bindings.filter(project=UUID(wanted[CostDimension.PROJECT]))
    return rows.filter(pk__in=bindings.order_by().values("cluster"))


def _of_read_projects(actor: Actor) -> Q:
    return Q(project__in=projects_visible_to(actor, READ_CHARGE).order_by().values("pk"))


def _of_own_use(actor: Actor) -> Q:
    if actor.kind is not ActorKind.PERSON:
        return Q(pk__in=())
    return Q(project__in=_own_projects(actor), owner=actor.label)


def _own_projects(actor: Actor) -> QuerySet[Any]:
    return projects_visible_to(actor, READ_OWN_CHARGE).order_by().values("pk")


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), tzinfo=UTC)

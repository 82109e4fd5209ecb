"""Reservations and refusals: fetched with permission."""

from django.db.models import QuerySet

from quotas.access.capabilities import READ_RESERVATION
from quotas.models import AdmissionRefusal, Reservation
from tenants.access import access_seen, is_platform_wide, projects_visible_to
from tenants.domain.actors import Actor


def reservations_visible_to(actor: Actor) -> QuerySet[Reservation]:
    """Return the reservations of the projects that an actor may read them of."""
    rows = Reservation.objects.select_related("cluster", "project")
    if is_platform_wide(actor, READ_RESERVATION):
        return rows
    return rows.filter(project__in=projects_visible_to(actor, READ_RESERVATION))


def refusals_visible_to(actor: Actor) -> QuerySet[AdmissionRefusal]:
    """Return the refusals of the projects that an actor may read reservations of.

    Refusals in namespaces of no project need a role that reads the whole platform.
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
    return access_seen(reservations_visible_to(actor), reservation_id)


def access_refusal(actor: Actor, refusal_id: int) -> AdmissionRefusal:
    """Return a refusal that an actor may read.

    Raises:
        NotFoundError: It does not exist for this actor.
    """
    return access_seen(refusals_visible_to(actor), refusal_id)

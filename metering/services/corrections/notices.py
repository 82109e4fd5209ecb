"""Notifications of incidents that were opened."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from metering.models import ExceptionState, MeteringException
from metering.selectors.corrections.incidents import (
    Incident,
    exceptions_of_incidents,
    incidents_of,
    open_among,
)
from tenants.domain.identity.roles import Role
from tenants.models import Notification
from tenants.services.notifications.outbox import notify

EVENT: Final = "metering:incident:opened"
LOOKED_BACK: Final = timedelta(days=1)
"""How far a sweep looks for new exceptions: longer than workers are ever down unnoticed."""
QUIET: Final = timedelta(days=7)
"""A cause that comes back within this is the same incident."""
LISTED_MAX: Final = 20
"""Incidents of one mail; the page lists all of them."""


def report_new_incidents(*, at: datetime) -> int:
    """Notify platform admins of the causes that are new, all in one mail; return how many.

    Args:
        at: When, UTC.
    """
    begin_at = at - LOOKED_BACK
    recent = open_among(MeteringException.objects.filter(created_at__gte=begin_at))
    opened = set(recent.order_by().values_list("incident", flat=True).distinct())
    opened -= _reported(since=at - QUIET)
    opened -= _earlier(opened, before=begin_at, since=at - QUIET)
    if not opened:
        return 0
    incidents = incidents_of(open_among(exceptions_of_incidents(recent, opened)))
    return len(incidents) if _report(incidents, at=at) else 0


def _report(incidents: Sequence[Incident], *, at: datetime) -> bool:
    """Write the notification; whether another sweep has not written the same one."""
    with transaction.atomic():
        event_id = notify(
            event=EVENT,
            organization_id=None,
            subject=_subject(incidents),
            text=_text(incidents),
            facts={"incidents": [_facts(one) for one in incidents]},
            roles=[Role.PLATFORM_ADMIN],
            key=_key(incidents, at=at),
            at=at,
        )
    return event_id is not None


def _reported(*, since: datetime) -> set[UUID]:
    rows = Notification.objects.filter(event=EVENT, occurred_at__gte=since)
    facts = rows.values_list("facts", flat=True)
    return {UUID(one["incident"]) for found in facts for one in found["incidents"]}


def _earlier(incident_ids: Iterable[UUID], *, before: datetime, since: datetime) -> set[UUID]:
    """Return those of some incidents that had exceptions before, open or not long ago."""
    rows = exceptions_of_incidents(MeteringException.objects.all(), incident_ids)
    known = rows.filter(
        Q(state=ExceptionState.OPEN) | Q(created_at__gte=since), created_at__lt=before
    )
    return set(known.order_by().values_list("incident", flat=True).distinct())


def _key(incidents: Sequence[Incident], *, at: datetime) -> str:
    """Return the same key for two sweeps at once."""
    ids = " ".join(sorted(str(one.id) for one in incidents))
    return f"incidents:{at:%Y-%m-%d}:{hashlib.sha256(ids.encode()).hexdigest()}"


def _subject(incidents: Sequence[Incident]) -> str:
    if len(incidents) == 1:
        return f"New incident: {_title(incidents[0])}"
    return f"{len(incidents)} new incidents"


def _text(incidents: Sequence[Incident]) -> str:
    shown = incidents[:LISTED_MAX]
    oldest = MeteringException.objects.in_bulk([one.oldest_id for one in shown])
    lines = ["Nothing is billed for what these exceptions hold, until they are settled:"]
    for one in shown:
        exceptions = f"{one.exceptions} exception{'s' if one.exceptions > 1 else ''}"
        since = f"{one.first_start:%Y-%m-%d %H:%M} UTC"
        stops = " Its hours are not sealed before." if one.is_blocking else ""
        lines += ["", f"{_title(one)}: {exceptions} since {since}.{stops}"]
        lines += [f"What to do: {oldest[one.oldest_id].remedy}"] if one.oldest_id in oldest else []
    if len(incidents) > LISTED_MAX:
        lines += ["", f"And {len(incidents) - LISTED_MAX} more."]
    return "\n".join(lines)


def _title(incident: Incident) -> str:
    kind = incident.kind.value.replace("_", " ").capitalize()
    about = [incident.namespace, incident.node, incident.resource]
    return ", ".join([kind, *filter(None, about), f"cluster {incident.cluster}"])


def _facts(incident: Incident) -> dict[str, Any]:
    return {
        "incident": str(incident.id),
        "kind": incident.kind.value,
        "cause": incident.cause,
        "cluster": incident.cluster,
        "namespace": incident.namespace,
        "node": incident.node,
        "resource": incident.resource,
        "exceptions": incident.exceptions,
        "hours": incident.hours,
        "held_unit_seconds": incident.held_unit_seconds,
        "first_start": incident.first_start.isoformat(),
    }

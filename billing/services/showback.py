"""Showback: charges added up by local day, so that pages of costs read no charges; saved views.

The statements that insert charges note their hours, in the same transaction. The sweep
takes the notes of some days and adds these days up anew, all of each; see ADR 0073.
"""

from collections.abc import Collection
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from billing.domain.costs import (
    VIEW_NAME_MAX,
    VIEW_QUERY_MAX,
    VIEWS_MAX,
    CostViewInvalidError,
    CostViewsTooManyError,
)
from billing.domain.documents.document import clean_text
from billing.models import CostView
from billing.selectors.locks import try_daily_costs_lock
from tenants.domain.actors import Actor
from tenants.services.audit import record

NOTES_PER_BATCH: Final = 500
"""Of as many days at most: 500 days of 72,000 charges take 1.6 s on two busy cores."""
BEFORE_MIDNIGHT: Final = timedelta(hours=2)
"""A day begins up to 45 minutes before its midnight, and an hour where that happens twice."""
AFTER_MIDNIGHT: Final = timedelta(hours=26)
"""A day has up to 25 hours."""


def add_up_changed_days(
    *, organization_ids: Collection[UUID] | None = None, notes: int = NOTES_PER_BATCH
) -> int:
    """Add up some days whose charges changed; return how many, 0 when none is left.

    Another worker's batch is not waited for: its days are its own, and the others are left to the
    next run. Four statements, whatever the number of days.

    Args:
        organization_ids: Only days of these; None for all.
        notes: Of as many days at most.
    """
    with transaction.atomic():
        if not try_daily_costs_lock():
            return 0
        days = _take_days(organization_ids, notes=notes)
        if days:
            _replace(*days)
    return len(days[0]) if days else 0


def save_cost_view(*, name: str, query: str, actor: Actor, at: datetime) -> CostView:
    """Return a person's view under a name; it replaces one of that name.

    Args:
        name: For people.
        query: That of the page's address.
        actor: The person.
        at: When.

    Raises:
        CostViewInvalidError: Name or query are empty or too long.
        CostViewsTooManyError: The person has VIEWS_MAX others.
    """
    text = clean_text(name).strip()
    if not 1 <= len(text) <= VIEW_NAME_MAX:
        raise CostViewInvalidError("The view cannot be saved.", field="name")
    if len(query) > VIEW_QUERY_MAX:
        raise CostViewInvalidError(
            "The filters are too long.", field="query", remedy="Use shorter filters."
        )
    with transaction.atomic():
        others = CostView.objects.filter(person=actor.person_id).exclude(name=text)
        if others.count() >= VIEWS_MAX:
            raise CostViewsTooManyError(f"There are {VIEWS_MAX} views.", field="name")
        view, _ = CostView.objects.update_or_create(
            person_id=actor.person_id,
            name=text,
            defaults={"query": query},
            create_defaults={"query": query, "created_at": at},
        )
        _audit(view, action="save", actor=actor, at=at)
    return view


def delete_cost_view(*, view: CostView, actor: Actor, at: datetime) -> None:
    """Delete a view of the acting person."""
    with transaction.atomic():
        _audit(view, action="delete", actor=actor, at=at)
        view.delete()


def changed_organizations() -> list[UUID]:
    """Return the organizations with hours whose charges changed, in their order."""
    with connection.cursor() as cursor:
        cursor.execute(_CHANGED)
        return [organization_id for (organization_id,) in cursor.fetchall()]


def note_all_days(*, organization_ids: Collection[UUID] | None = None) -> int:
    """Have every day added up anew, the latest first; return how many days.

    Days that have costs and no charges are among them.

    Args:
        organization_ids: Only days of these; None for all.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NOTE_ALL, _only(organization_ids))
        return int(cursor.rowcount)


Days = tuple[list[UUID], list[date], list[datetime]]
"""Organizations, days, and where each day begins."""


def _take_days(organization_ids: Collection[UUID] | None, *, notes: int) -> Days | None:
    """Remove the notes of some days, and return these days."""
    values = {**_only(organization_ids), "notes": notes}
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        rows = cursor.fetchall()
    if not rows:
        return None
    organizations, days, begins = zip(*rows, strict=True)
    return list(organizations), list(days), list(begins)


def _replace(organizations: list[UUID], days: list[date], begins: list[datetime]) -> None:
    values: dict[str, Any] = {
        "organizations": organizations,
        "days": days,
        "begins": begins,
        "before": BEFORE_MIDNIGHT,
        "after": AFTER_MIDNIGHT,
        "first": min(begins) - BEFORE_MIDNIGHT,
        "end": max(begins) + AFTER_MIDNIGHT,
    }
    with connection.cursor() as cursor:
        cursor.execute(_REMOVE, values)
        cursor.execute(_ADD_UP, values)


def _audit(view: CostView, *, action: str, actor: Actor, at: datetime) -> None:
    record(
        actor=actor,
        at=at,
        action=f"billing:cost_view:{action}",
        object_kind="cost_view",
        object_id=view.pk,
        facts={"name": view.name, "query": view.query},
    )


def _only(organization_ids: Collection[UUID] | None) -> dict[str, list[UUID] | None]:
    return {"only": None if organization_ids is None else list(organization_ids)}


_CHANGED: Final = "SELECT DISTINCT organization_id FROM billing_changedhour ORDER BY 1"
# A note that commits after this statement began stays, and its day is added up once more.
_TAKE: Final = """
WITH noted AS MATERIALIZED (
  SELECT h.organization_id, h.window_start FROM billing_changedhour h
   WHERE (%(only)s::uuid[] IS NULL OR h.organization_id = ANY(%(only)s::uuid[]))
   ORDER BY h.id LIMIT %(notes)s
),
due AS MATERIALIZED (
  SELECT DISTINCT n.organization_id, o.time_zone,
         billing_local_day(n.window_start, o.time_zone) AS day
    FROM noted n JOIN tenants_organization o ON o.id = n.organization_id
),
taken AS (
  DELETE FROM billing_changedhour h USING due d
   WHERE h.organization_id = d.organization_id
     AND billing_local_day(h.window_start, d.time_zone) = d.day
)
SELECT organization_id, day, timezone(time_zone, day::timestamp) FROM due ORDER BY 1, 2
"""
_DAYS: Final = """unnest(%(organizations)s::uuid[], %(days)s::date[], %(begins)s::timestamptz[])
    AS d(organization_id, day, begin_at)"""
_REMOVE: Final = f"""
DELETE FROM billing_dailycost c USING {_DAYS}
 WHERE (c.organization_id, c.day) = (d.organization_id, d.day)
"""  # noqa: S608 - Constants.
# The range of hours only finds charges by index; their local day decides.
_ADD_UP: Final = f"""
INSERT INTO billing_dailycost
  (organization_id, day, project_id, owner, cluster_id, size, price_group, unit_price,
   base_unit_price, currency, unit_seconds)
SELECT c.organization_id, d.day, c.project_id, c.owner, c.cluster_id, c.size, c.price_group,
       c.unit_price, c.base_unit_price, c.currency, sum(c.unit_seconds)::bigint
  FROM {_DAYS}
  JOIN tenants_organization o ON o.id = d.organization_id
  JOIN billing_charge c
    ON c.organization_id = d.organization_id
   AND c.window_start >= d.begin_at - %(before)s
   AND c.window_start < d.begin_at + %(after)s
   AND billing_local_day(c.window_start, o.time_zone) = d.day
 WHERE c.window_start >= %(first)s AND c.window_start < %(end)s
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
HAVING sum(c.unit_seconds) <> 0
 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
"""  # noqa: S608 - Constants.
_NOTE_ALL: Final = """
INSERT INTO billing_changedhour (organization_id, window_start)
SELECT d.organization_id, timezone(o.time_zone, d.day + time '12:00')
  FROM (SELECT c.organization_id, billing_local_day(c.window_start, o.time_zone) AS day
          FROM (SELECT DISTINCT organization_id, window_start FROM billing_charge) c
          JOIN tenants_organization o ON o.id = c.organization_id
         UNION
        SELECT organization_id, day FROM billing_dailycost) d
  JOIN tenants_organization o ON o.id = d.organization_id
 WHERE (%(only)s::uuid[] IS NULL OR d.organization_id = ANY(%(only)s::uuid[]))
 ORDER BY d.day DESC, d.organization_id
"""

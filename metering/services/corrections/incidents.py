"""Settling incidents: every open exception of one, each by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from metering.domain.collection.reconciliation import Side
from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy
from metering.domain.errors import required_note
from metering.models import MeteringException
from metering.selectors.corrections.incidents import open_among
from metering.services.corrections.exceptions import accept_side, resolve_exception
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.services.audit import note_refusal
from tenants.services.changing import noun_of

SETTLED_MAX: Final = 1_000
"""Exceptions that one call settles, some seconds' work; the rest follows with the next call."""


@dataclass(frozen=True)
class RefusedException:
    """An exception that stays open, and why."""

    exception_id: int
    window_start: datetime
    refusal: DomainError


@dataclass(frozen=True)
class SettledIncident:
    """What one call did.

    Attributes:
        settled: How many exceptions it settled.
        refused: Those that it could not settle.
        left: How many it did not try, beyond `SETTLED_MAX`.
    """

    settled: int
    refused: Sequence[RefusedException]
    left: int


def settle_incident(
    *,
    exceptions: QuerySet[MeteringException],
    note: str,
    side: Side | None = None,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> SettledIncident:
    """Settle every open exception of an incident, each in a transaction of its own.

    A refusal stops no other: it is returned with its reason. The call may be repeated.

    Args:
        exceptions: The exceptions of the incident that the actor may settle.
        note: Why.
        side: Whose evidence is accepted and billed; None leaves what is held unbilled.
        actor: The deciding person.
        at: When, UTC.
        policy: How old a sealed hour may be that is rechecked.

    Raises:
        NoteMissingError: The note is empty; nothing was settled.
    """
    text = required_note(note)
    waiting = open_among(exceptions).order_by("window_start", "pk")
    rows = list(waiting.values_list("pk", "window_start")[:SETTLED_MAX])
    left = waiting.count() - len(rows)
    refused = []
    for exception_id, window_start in rows:
        try:
            if side is None:
                resolve_exception(exception_id=exception_id, note=text, actor=actor, at=at)
            else:
                accept_side(
                    exception_id=exception_id,
                    side=side,
                    note=text,
                    actor=actor,
                    at=at,
                    policy=policy,
                )
        except DomainError as error:
            noun = noun_of(MeteringException)
            note_refusal(refusal=error, noun=noun, object_id=exception_id, actor=actor, at=at)
            refused.append(RefusedException(exception_id, window_start, error))
    return SettledIncident(settled=len(rows) - len(refused), refused=refused, left=left)

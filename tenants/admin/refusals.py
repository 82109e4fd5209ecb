"""Why a row was not written, as text: refusals, a busy database, and faults."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from django.db import OperationalError
from django.utils.translation import gettext, gettext_noop

from tenants.domain.errors import DomainError
from tenants.services.turns import report_crash
from tenants.templatetags.texts import english

BUSY: Final = gettext_noop("The database was busy; nothing of it was changed. Start again.")
FAILED: Final = gettext_noop(
    "A fault stopped it; nothing of it was changed. Show it to a platform admin: the log has it as "
    "{event}."
)


def refusals_of(
    call: Callable[[], object],
    *,
    audit: Callable[[DomainError], None] = lambda _: None,
    event: str,
    key: object,
    at: datetime,
) -> list[str]:
    """Call a service for one of several rows, and return why it was not done; empty if it was.

    A fault is logged and counted, and the rows behind it go on.

    Args:
        call: The service for the row, in a transaction of its own.
        audit: Called with a refusal once that transaction is undone.
        event: As a fault is logged and counted.
        key: The row: an id, never a name.
        at: When.
    """
    try:
        call()
    except DomainError as error:
        audit(error)
        return refusal_texts(error)
    except OperationalError:
        return [gettext(BUSY)]
    except Exception as error:  # noqa: BLE001 - One row of several: it is reported and shown.
        report_crash(error, event=event, key=key, at=at)
        return [gettext(FAILED).format(event=event)]
    return []


def refusal_texts(error: DomainError) -> list[str]:
    """Return a refusal with its remedy, and every problem it names."""
    return [refusal_sentence(error), *(english(problem.message) for problem in error.problems)]


def refusal_sentence(error: DomainError) -> str:
    """Return a refusal with its remedy."""
    return english(f"{error.message} {error.advice}".strip())

"""A person's sessions that have not ended, as the person may look at them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User

from tenants.models import PersonSession

SHOWN_MAX: Final = 200
"""Far more browsers than a person has."""


@dataclass(frozen=True)
class SessionFact:
    """One session; its key is not among this.

    Attributes:
        began_at: When the person signed in.
        last_used_at: Within a minute.
        ends_at: When it ends if it is not used any more.
        browser: What the browser calls itself.
    """

    id: UUID
    began_at: datetime
    last_used_at: datetime
    ends_at: datetime
    browser: str
    is_current: bool


def sessions_of(user: User, *, current: UUID | None, at: datetime) -> tuple[SessionFact, ...]:
    """Return a person's sessions, the newest first.

    Args:
        user: Whose.
        current: The one that asks; None when a token does.
        at: When, UTC.
    """
    rows = PersonSession.objects.filter(
        user=user, public_id__isnull=False, expire_date__gt=at
    ).order_by("-public_id")
    return tuple(_fact(row, current=current) for row in rows[:SHOWN_MAX])


def _fact(row: PersonSession, *, current: UUID | None) -> SessionFact:
    data = row.get_decoded()
    return SessionFact(
        id=UUID(str(row.public_id)),
        began_at=datetime.fromtimestamp(data.get("began_at", 0), tz=UTC),
        last_used_at=datetime.fromtimestamp(data.get("used_at", 0), tz=UTC),
        ends_at=row.expire_date,
        browser=str(data.get("browser", "")),
        is_current=row.public_id == current,
    )

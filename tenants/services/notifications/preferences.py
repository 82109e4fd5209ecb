"""Write what a person is mailed about, and in which language."""

from collections.abc import Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import Actor
from tenants.domain.errors import ForbiddenError
from tenants.domain.notifications import muted_problems
from tenants.models import NotificationPreference
from tenants.selectors.notifications import preference_of
from tenants.services.changing import change_row, lock_version


@transaction.atomic
def choose_notifications(
    *,
    person: User,
    muted_events: Sequence[str],
    language: str,
    expected_version: int | None = None,
    actor: Actor,
    at: datetime,
) -> NotificationPreference:
    """Set which events a person is not mailed about, and the language of the others.

    Mails that are written already are still sent. Endpoints are not concerned.

    Args:
        person: The actor itself.
        muted_events: Names of events.
        language: "en" or "de"; "" for that of what is reported.
        expected_version: The version that the caller read; None to skip the check.
        actor: The person.
        at: When, UTC.

    Raises:
        ForbiddenError: The actor is another person, or a program.
        InvalidInputError: There is no such event or language; every problem is listed.
        StaleVersionError: It was changed in the meantime.
    """
    if actor.person_id != person.pk or actor.scopes is not None:
        raise ForbiddenError(
            "People choose their own notifications.",
            remedy="Sign in, or use a token of the person without scopes.",
        )
    fresh = preference_of(person)
    fresh.changed_at = at
    NotificationPreference.objects.bulk_create([fresh], ignore_conflicts=True)
    row = lock_version(fresh, expected_version=expected_version, actor=actor)
    changes = {"muted_events": sorted(set(muted_events)), "language": language}
    if all(getattr(row, name) == value for name, value in changes.items()):
        return row
    return change_row(
        row=row,
        changes={**changes, "changed_at": at},
        verb="update",
        actor=actor,
        at=at,
        organization_id=None,
        problems=muted_problems(muted_events),
    )

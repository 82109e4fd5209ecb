"""What was reported long ago is purged, and what somebody still waits for never is."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.db import DataError, connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from tenants import tasks
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, IdempotencyRecord, Notification, NotificationDelivery
from tenants.selectors.actors import actor_of_user
from tenants.services import retention
from tenants.services.idempotency import purge_responses
from tenants.services.notifications.outbox import notify
from tenants.services.retention import (
    NOTIFICATIONS,
    PurgedNotifications,
    in_batches,
    purge_and_record,
    purge_notifications,
)
from tests.support.builders import AT
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

KEPT = timedelta(days=90)
SECOND = timedelta(seconds=1)
ACTOR = system_actor("tests")
FORGOTTEN = "tenants:notification:purged"


@shared_rows
def cast() -> Cast:
    return make_cast()


def tell(cast: Cast, subject: str, *states: str, at: datetime) -> None:
    """Tell bob and alice something, and say how far each telling has come."""
    with transaction.atomic():
        notify(
            event="quotas:request:approved",
            organization_id=cast.acme.pk,
            subject=subject,
            text=subject,
            usernames=["alice", "bob"][: len(states)],
            at=at,
        )
    rows = NotificationDelivery.objects.filter(notification__subject=subject).order_by("address")
    for row, state in zip(rows, states, strict=True):
        NotificationDelivery.objects.filter(pk=row.pk).update(state=state, sent_at=at)


def left() -> list[tuple[str, int]]:
    rows = Notification.objects.order_by("subject")
    return [(row.subject, row.deliveries.count()) for row in rows]


def reported() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=FORGOTTEN))


def purge(at: datetime = AT) -> int:
    return purge_notifications(kept=KEPT, actor=ACTOR, at=at)


def test_what_is_over_is_purged_after_its_days_and_what_waits_is_not(cast: Cast) -> None:
    old = AT - KEPT - SECOND
    tell(cast, "arrived", "sent", "sent", at=old)
    tell(cast, "given up and skipped", "given_up", "skipped", at=old)
    tell(cast, "half on its way", "sent", "pending", at=old)
    tell(cast, "nobody's", at=old)
    tell(cast, "young", "sent", "sent", at=AT - KEPT)

    with capture_logs() as lines:
        purged = purge()

    assert purged == 3
    assert left() == [("half on its way", 2), ("young", 2)]
    assert NotificationDelivery.objects.count() == 4
    assert [(line["event"], line["notifications"]) for line in lines] == [
        ("tenants.retention.purged", 3)
    ]
    entry = AuditEntry.objects.get(action=FORGOTTEN)
    assert entry.facts == {"notifications": 3, "occurred_before": (AT - KEPT).isoformat()}
    assert (entry.object_kind, entry.object_id) == ("notification", AT.isoformat())
    assert (entry.organization_id, entry.actor_label) == (None, ACTOR.label)
    assert purge() == 0
    assert AuditEntry.objects.filter(action=FORGOTTEN).count() == 1


def test_what_arrived_late_is_purged_at_the_next_tick(cast: Cast) -> None:
    tell(cast, "slow", "pending", at=AT - KEPT - SECOND)
    assert purge() == 0

    NotificationDelivery.objects.update(state="sent", sent_at=AT)

    assert purge() == 1
    assert left() == []


def test_batches_are_made_until_one_is_not_full_and_each_is_reported(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        tell(cast, f"{number}", "sent", at=AT - KEPT - timedelta(hours=5 - number))

    with CaptureQueriesContext(connection) as statements:
        purged = purge()

    # Each batch is one statement and its entry, between a savepoint and its end.
    assert (purged, left(), len(statements)) == (5, [], 3 * 4)
    assert sorted(entry.facts["notifications"] for entry in reported()) == [1, 2, 2]
    assert {entry.object_id for entry in reported()} == {AT.isoformat()}


def test_the_oldest_go_first_and_no_batch_begins_when_time_is_up(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        tell(cast, f"{number}", "sent", at=AT - KEPT - timedelta(hours=5 - number))
    times = iter([True, True, False])

    purged = purge_notifications(kept=KEPT, has_time=lambda: next(times), actor=ACTOR, at=AT)

    assert (purged, left()) == (4, [("4", 1)])
    assert [entry.facts["notifications"] for entry in reported()] == [2, 2]


@pytest.mark.django_db
def test_a_tick_makes_a_bounded_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCHES_MAX", 3)
    asked: list[int] = []

    def purge_batch(most: int) -> int:
        asked.append(most)
        return most

    done = in_batches(purge_batch, has_time=lambda: True)

    assert (asked, done) == ([retention.BATCH] * 3, 3 * retention.BATCH)


@pytest.mark.django_db
@pytest.mark.parametrize(("counts", "entries"), [([], 0), ([0], 0), ([7], 1)])
def test_nothing_is_reported_where_nothing_is_purged(counts: list[int], entries: int) -> None:
    has_time = bool(counts)

    with capture_logs() as lines:
        purge_and_record(
            lambda _before, _most: counts.pop(0),
            names=NOTIFICATIONS,
            kept=KEPT,
            has_time=lambda: has_time,
            actor=ACTOR,
            at=AT,
        )

    assert (counts, len(reported()), len(lines)) == ([], entries, entries)


def test_whatever_ends_a_sweep_the_batches_before_are_reported(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    for number in range(3):
        tell(cast, f"{number}", "sent", at=AT - KEPT - timedelta(hours=5 - number))
    answers = iter([True, True])

    # As a signal does it: no handler of errors is asked.
    def has_time() -> bool:
        if next(answers, False):
            return True
        raise SystemExit

    with pytest.raises(SystemExit):
        purge_notifications(kept=KEPT, has_time=has_time, actor=ACTOR, at=AT)

    assert left() == [("2", 1)]
    assert [entry.facts["notifications"] for entry in reported()] == [1, 1]


def test_a_batch_whose_entry_cannot_be_written_is_not_purged(cast: Cast) -> None:
    tell(cast, "old", "sent", at=AT - KEPT - SECOND)
    unwritable = replace(NOTIFICATIONS, object_kind="x" * 1_000)

    def purge_batch(_before: datetime, _most: int) -> int:
        return NotificationDelivery.objects.all().delete()[0]

    with pytest.raises(DataError):
        purge_and_record(
            purge_batch,
            names=unwritable,
            kept=KEPT,
            has_time=lambda: True,
            actor=ACTOR,
            at=AT,
        )

    assert (left(), reported()) == ([("old", 1)], [])


def test_only_the_service_itself_forgets(cast: Cast) -> None:
    tell(cast, "old", "sent", at=AT - KEPT - SECOND)

    with pytest.raises(ValueError, match="only the service itself"):
        purge_notifications(kept=KEPT, actor=actor_of_user(cast.frank), at=AT)

    assert left() == [("old", 1)]


def test_old_notifications_are_found_by_index(cast: Cast) -> None:
    tell(cast, "old", "sent", at=AT - KEPT - SECOND)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + retention.PURGE, {"before": AT - KEPT, "most": 10})
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "notification_occurred" in plan


def store(key: str, at: datetime) -> None:
    """Store the answer of a request under a key."""
    IdempotencyRecord.objects.create(
        principal="person:1",
        key=key,
        roles=[],
        fingerprint=b"x",
        status=201,
        body={},
        headers={},
        created_at=at,
    )


@pytest.fixture
def kept_days() -> Iterator[None]:
    with override_settings(NOTIFICATIONS_KEPT_DAYS=100):
        yield


@pytest.mark.usefixtures("kept_days")
def test_the_tick_keeps_what_the_setting_says_and_forgets_stored_answers(cast: Cast) -> None:
    tell(cast, "older", "sent", at=AT - timedelta(days=100, seconds=1))
    tell(cast, "old", "sent", at=AT - timedelta(days=100))
    store("last week", AT - timedelta(days=8))
    store("today", AT)

    assert tasks.purge(AT) == PurgedNotifications(notifications=1, answers=1)
    assert left() == [("old", 1)]
    assert IdempotencyRecord.objects.get().key == "today"


@pytest.mark.django_db
def test_stored_answers_are_purged_until_nothing_older_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        store(f"{number}", AT - timedelta(days=8, hours=-number))
    store("young", AT)
    times = iter([True, False])

    first = purge_responses(has_time=lambda: next(times), actor=ACTOR, at=AT)
    rest = purge_responses(actor=ACTOR, at=AT)

    assert (first, rest) == (2, 3)
    assert IdempotencyRecord.objects.get().key == "young"


@pytest.mark.usefixtures("kept_days")
def test_the_tick_begins_nothing_after_a_minute(cast: Cast) -> None:
    tell(cast, "older", "sent", at=AT - timedelta(days=101))
    store("last week", AT - timedelta(days=8))
    seconds = iter([0, *[60] * 4])

    assert tasks.purge(AT, clock=lambda: next(seconds)) == PurgedNotifications()
    assert left() == [("older", 1)]
    assert IdempotencyRecord.objects.count() == 1

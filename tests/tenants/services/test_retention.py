"""What was told long ago is forgotten, and what somebody still waits for never is."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.db import connection, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from structlog.testing import capture_logs

from tenants import tasks
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, IdempotencyRecord, Notification, NotificationDelivery
from tenants.selectors.actors import actor_of_user
from tenants.services import retention
from tenants.services.notifications import notify
from tenants.services.retention import Forgotten, forget_notifications, in_batches
from tests.builders import AT
from tests.cast import Cast, make_cast

KEPT = timedelta(days=90)
SECOND = timedelta(seconds=1)
ACTOR = system_actor("tests")
FORGOTTEN = "tenants:notification:forgotten"


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - The database comes first.
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


def told() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=FORGOTTEN))


def forget(at: datetime = AT) -> int:
    return forget_notifications(kept=KEPT, actor=ACTOR, at=at)


def test_what_is_over_is_forgotten_after_its_days_and_what_waits_is_not(cast: Cast) -> None:
    old = AT - KEPT - SECOND
    tell(cast, "arrived", "sent", "sent", at=old)
    tell(cast, "given up and skipped", "given_up", "skipped", at=old)
    tell(cast, "half on its way", "sent", "pending", at=old)
    tell(cast, "nobody's", at=old)
    tell(cast, "young", "sent", "sent", at=AT - KEPT)

    with capture_logs() as lines:
        forgotten = forget()

    assert forgotten == 3
    assert left() == [("half on its way", 2), ("young", 2)]
    assert NotificationDelivery.objects.count() == 4
    assert [(line["event"], line["notifications"]) for line in lines] == [
        ("tenants.retention.forgotten", 3)
    ]
    entry = AuditEntry.objects.get(action=FORGOTTEN)
    assert entry.facts == {"notifications": 3, "occurred_before": (AT - KEPT).isoformat()}
    assert (entry.object_kind, entry.object_id) == ("notification", AT.isoformat())
    assert (entry.organization_id, entry.actor_label) == (None, ACTOR.label)
    assert forget() == 0
    assert AuditEntry.objects.filter(action=FORGOTTEN).count() == 1


def test_what_arrived_late_is_forgotten_at_the_next_tick(cast: Cast) -> None:
    tell(cast, "slow", "pending", at=AT - KEPT - SECOND)
    assert forget() == 0

    NotificationDelivery.objects.update(state="sent", sent_at=AT)

    assert forget() == 1
    assert left() == []


def test_batches_are_made_until_one_is_not_full_and_told_once(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        tell(cast, f"{number}", "sent", at=AT - KEPT - timedelta(hours=5 - number))

    with CaptureQueriesContext(connection) as statements:
        forgotten = forget()

    # Each batch is one statement between a savepoint and its end; the entry is one more.
    assert (forgotten, left(), len(statements)) == (5, [], 3 * 3 + 1)
    assert [entry.facts["notifications"] for entry in told()] == [5]


def test_the_oldest_go_first_and_no_batch_begins_when_time_is_up(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        tell(cast, f"{number}", "sent", at=AT - KEPT - timedelta(hours=5 - number))
    times = iter([True, True, False])

    forgotten = forget_notifications(kept=KEPT, has_time=lambda: next(times), actor=ACTOR, at=AT)

    assert (forgotten, left()) == (4, [("4", 1)])
    assert [entry.facts["notifications"] for entry in told()] == [4]


@pytest.mark.django_db
def test_a_tick_makes_a_bounded_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCHES_MAX", 3)
    asked: list[int] = []
    sums: list[int] = []

    def forget_batch(most: int) -> int:
        asked.append(most)
        return most

    done = in_batches(forget_batch, tell=sums.append, has_time=lambda: True)

    assert asked == [retention.BATCH] * 3
    assert (done, sums) == (3 * retention.BATCH, [done])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("batches", "has_time", "expected"),
    [([], False, []), ([0], True, []), ([7], True, [7])],
)
def test_nothing_is_told_where_nothing_is_forgotten(
    batches: list[int],
    has_time: bool,  # noqa: FBT001 - A parameter of the test.
    expected: list[int],
) -> None:
    sums: list[int] = []

    in_batches(lambda _: batches.pop(0), tell=sums.append, has_time=lambda: has_time)

    assert (batches, sums) == ([], expected)


def test_a_batch_that_fails_keeps_nothing_of_what_was_forgotten_untold(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 1)
    for number in range(3):
        tell(cast, f"{number}", "sent", at=AT - KEPT - timedelta(hours=5 - number))
    answers = iter([True, True])

    with pytest.raises(StopIteration):
        forget_notifications(kept=KEPT, has_time=lambda: next(answers), actor=ACTOR, at=AT)

    # The second batch was taken back with its transaction; the first had been kept.
    assert left() == [("1", 1), ("2", 1)]
    assert [entry.facts["notifications"] for entry in told()] == [1]


def test_a_first_batch_that_fails_leaves_nothing(cast: Cast) -> None:
    tell(cast, "old", "sent", at=AT - KEPT - SECOND)

    def refuse(_: int) -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        in_batches(
            lambda _: NotificationDelivery.objects.all().delete()[0],
            tell=refuse,
            has_time=lambda: True,
        )

    assert (left(), told()) == ([("old", 1)], [])


def test_only_the_service_itself_forgets(cast: Cast) -> None:
    tell(cast, "old", "sent", at=AT - KEPT - SECOND)

    with pytest.raises(ValueError, match="only the service itself"):
        forget_notifications(kept=KEPT, actor=actor_of_user(cast.frank), at=AT)

    assert left() == [("old", 1)]


def test_old_notifications_are_found_by_index(cast: Cast) -> None:
    tell(cast, "old", "sent", at=AT - KEPT - SECOND)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("EXPLAIN " + retention.FORGET, {"before": AT - KEPT, "most": 10})
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "notification_occurred" in plan


@pytest.fixture
def kept_days() -> Iterator[None]:
    with override_settings(NOTIFICATIONS_KEPT_DAYS=100):
        yield


@pytest.mark.usefixtures("kept_days")
def test_the_tick_keeps_what_the_setting_says_and_forgets_stored_answers(cast: Cast) -> None:
    tell(cast, "older", "sent", at=AT - timedelta(days=100, seconds=1))
    tell(cast, "old", "sent", at=AT - timedelta(days=100))
    for key, days in (("last week", 8), ("today", 0)):
        IdempotencyRecord.objects.create(
            principal="person:1",
            key=key,
            fingerprint=b"x",
            status=201,
            body={},
            headers={},
            created_at=AT - timedelta(days=days),
        )

    assert tasks.forget(AT) == Forgotten(notifications=1, answers=1)
    assert left() == [("old", 1)]
    assert IdempotencyRecord.objects.get().key == "today"


@pytest.mark.usefixtures("kept_days")
def test_the_tick_begins_nothing_after_a_minute(cast: Cast) -> None:
    tell(cast, "older", "sent", at=AT - timedelta(days=101))
    seconds = iter([0, 60])

    assert tasks.forget(AT, clock=lambda: next(seconds)) == Forgotten()
    assert left() == [("older", 1)]

"""Deliveries are claimed once, sent outside a transaction, tried again, and given up."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import connection, connections, transaction
from structlog.testing import capture_logs

from config.celery import TASK_SOFT_TIME_LIMIT_SECONDS
from simulator.adapters.notification_sender import SimulatedSender
from tenants import tasks
from tenants.domain.actors import system_actor
from tenants.domain.notifications import ATTEMPTS_MAX, LEASE, wait_after
from tenants.models import NotificationDelivery, NotificationEndpoint, SweepCrash
from tenants.protocols import OutgoingNotification
from tenants.services.notifications.deliveries import (
    ClaimedDelivery,
    claim_deliveries,
    send_claimed,
)
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT, make_organization

ACTOR = system_actor("tests")
HOOK = "https://acme.test/hook"


@pytest.fixture(autouse=True)
def not_notified() -> Iterator[None]:
    SimulatedSender.purge()
    yield
    SimulatedSender.purge()


def make_hooks(count: int = 1) -> None:
    """Tell one event to so many webhooks of an organization."""
    organization = make_organization()
    for number in range(count):
        NotificationEndpoint.objects.create(
            organization=organization,
            kind="webhook",
            address=HOOK if number == 0 else f"{HOOK}/{number}",
            events=["*"],
            secret_reference="env:WEBHOOK_SECRET_ACME",
            created_at=AT,
        )
    with transaction.atomic():
        notify(
            event="quotas:request:approved",
            organization_id=organization.pk,
            subject="Approved",
            text="Yes.",
            facts={"units": 8},
            at=AT,
        )


def claim(limit: int = 10, *, seconds: int = 0) -> tuple[ClaimedDelivery, ...]:
    return claim_deliveries(limit=limit, actor=ACTOR, at=AT + timedelta(seconds=seconds))


def send(claimed: tuple[ClaimedDelivery, ...]) -> int:
    return send_claimed(claimed=claimed, senders={"webhook": SimulatedSender()}, at=AT)


@pytest.mark.django_db
def test_what_is_due_is_sent_and_marked() -> None:
    make_hooks()

    failed = send(claim())

    stored = NotificationDelivery.objects.get()
    assert failed == 0
    assert (stored.state, stored.attempts, stored.sent_at) == ("sent", 1, AT)
    (sent,) = SimulatedSender.sent
    assert sent == OutgoingNotification(
        event_id=stored.notification_id,
        event="quotas:request:approved",
        occurred_at=AT,
        organization="acme",
        subject="Approved",
        text="Yes.",
        facts={"units": 8},
        address=HOOK,
        secret_reference="env:WEBHOOK_SECRET_ACME",
    )
    assert claim(seconds=86_400) == ()


@pytest.mark.django_db
def test_who_dies_with_a_claim_leaves_it_to_others_after_the_lease() -> None:
    make_hooks()
    first = claim()

    during = claim(seconds=int(LEASE.total_seconds()) - 1)
    after = claim(seconds=int(LEASE.total_seconds()))

    assert (len(first), during, len(after)) == (1, (), 1)
    assert NotificationDelivery.objects.get().attempts == 0
    assert after[0].notification.event_id == first[0].notification.event_id


@pytest.mark.django_db
def test_who_comes_back_late_overwrites_no_later_attempt() -> None:
    make_hooks()
    late = claim()
    SimulatedSender.failing.add(HOOK)
    send(claim(seconds=int(LEASE.total_seconds())))
    SimulatedSender.failing.clear()

    send(late)

    stored = NotificationDelivery.objects.get()
    assert (stored.state, stored.attempts) == ("pending", 1)
    assert stored.last_error == "unreachable: Nobody is there."
    assert SimulatedSender.sent == []


@pytest.mark.django_db
def test_who_is_away_is_tried_again_later_and_spares_the_others() -> None:
    make_hooks(2)
    SimulatedSender.failing.add(HOOK)

    failed = send(claim())

    away = NotificationDelivery.objects.get(address=HOOK)
    assert failed == 1
    assert (away.state, away.attempts) == ("pending", 1)
    assert away.next_at == AT + timedelta(seconds=30)
    assert away.last_error == "unreachable: Nobody is there."
    assert [sent.address for sent in SimulatedSender.sent] == [f"{HOOK}/1"]


class Breaking:
    """A sender with a mistake that shows at one address."""

    def __init__(self, mistake: BaseException) -> None:
        self.mistake = mistake
        self.sent: list[str] = []

    def send(self, notification: OutgoingNotification) -> None:
        if notification.address == HOOK:
            raise self.mistake
        self.sent.append(notification.address)


@pytest.mark.django_db
def test_a_mistake_at_one_address_stops_no_other() -> None:
    make_hooks(3)
    NotificationDelivery.objects.filter(address=HOOK).update(next_at=AT - timedelta(hours=1))
    breaking = Breaking(ValueError("a secret in its text"))

    with capture_logs() as logs:
        failed = send_claimed(claimed=claim(), senders={"webhook": breaking}, at=AT)

    broken = NotificationDelivery.objects.get(address=HOOK)
    assert failed == 1
    assert (broken.state, broken.attempts) == ("pending", 1)
    assert broken.next_at == AT + timedelta(seconds=30)
    assert broken.last_error == "unexpected: ValueError"
    assert sorted(breaking.sent) == [f"{HOOK}/1", f"{HOOK}/2"]
    assert NotificationDelivery.objects.filter(state="sent").count() == 2
    (reported,) = [entry for entry in logs if entry["event"] == "tenants.notifications.crashed"]
    assert (reported["log_level"], reported["key"]) == ("error", str(broken.pk))
    assert reported["exc_info"] is breaking.mistake


@pytest.mark.django_db
def test_the_end_of_a_tasks_time_is_no_mistake_at_the_address_it_was_at() -> None:
    make_hooks(2)
    NotificationDelivery.objects.filter(address=HOOK).update(next_at=AT - timedelta(hours=1))

    with capture_logs() as logs, pytest.raises(SoftTimeLimitExceeded):
        send_claimed(claimed=claim(), senders={"webhook": Breaking(SoftTimeLimitExceeded())}, at=AT)

    rows = NotificationDelivery.objects.order_by("address")
    assert [(row.state, row.attempts, row.last_error) for row in rows] == [
        ("pending", 1, ""),
        ("pending", 0, ""),
    ]
    assert not SweepCrash.objects.exists()
    assert not [entry for entry in logs if entry["log_level"] == "error"]


@pytest.mark.django_db
def test_who_dies_at_one_delivery_uses_up_no_attempt_of_the_others() -> None:
    make_hooks(3)
    NotificationDelivery.objects.filter(address=HOOK).update(next_at=AT - timedelta(hours=1))

    with pytest.raises(SystemExit):
        send_claimed(claimed=claim(), senders={"webhook": Breaking(SystemExit())}, at=AT)

    rows = NotificationDelivery.objects.order_by("address")
    assert list(rows.values_list("attempts", flat=True)) == [1, 0, 0]
    assert set(rows.values_list("state", flat=True)) == {"pending"}


@pytest.mark.django_db
def test_after_so_many_attempts_it_is_given_up() -> None:
    make_hooks()
    SimulatedSender.failing.add(HOOK)
    at = AT

    for attempts in range(1, ATTEMPTS_MAX + 1):
        claimed = claim_deliveries(limit=10, actor=ACTOR, at=at)
        assert len(claimed) == 1
        send_claimed(claimed=claimed, senders={"webhook": SimulatedSender()}, at=at)
        at += wait_after(attempts) or timedelta()

    stored = NotificationDelivery.objects.get()
    assert (stored.state, stored.attempts) == ("given_up", ATTEMPTS_MAX)
    assert claim(seconds=10**7) == ()


@pytest.mark.django_db
def test_a_kind_that_nobody_sends_is_skipped_and_says_so() -> None:
    make_hooks()

    failed = send_claimed(claimed=claim(), senders={}, at=AT)

    stored = NotificationDelivery.objects.get()
    assert (failed, stored.state) == (0, "skipped")
    assert stored.last_error == "This installation sends no webhook."
    assert stored.attempts == 0


@pytest.mark.django_db
def test_what_was_written_while_its_endpoint_was_closed_is_skipped_at_the_claim() -> None:
    make_hooks(3)
    NotificationEndpoint.objects.filter(address=HOOK).update(state="closed")

    claimed = claim()

    stored = NotificationDelivery.objects.get(address=HOOK)
    assert {one.notification.address for one in claimed} == {f"{HOOK}/1", f"{HOOK}/2"}
    assert (stored.state, stored.attempts) == ("skipped", 0)
    assert stored.last_error == "Its endpoint was closed."


@pytest.mark.django_db
def test_an_endpoint_that_is_closed_while_others_are_reported_hears_nothing() -> None:
    make_hooks()
    claimed = claim()
    NotificationDelivery.objects.update(state="skipped", last_error="Its endpoint was closed.")

    failed = send(claimed)

    stored = NotificationDelivery.objects.get()
    assert (failed, stored.state, stored.attempts) == (0, "skipped", 0)
    assert SimulatedSender.sent == []


@pytest.mark.django_db
def test_the_longest_waiting_come_first_and_no_more_than_asked_for() -> None:
    make_hooks(3)
    last = NotificationDelivery.objects.get(address=f"{HOOK}/1")
    NotificationDelivery.objects.exclude(pk=last.pk).update(next_at=AT - timedelta(hours=1))

    first, second = claim(2), claim(2)

    assert last.pk not in {one.delivery_id for one in first}
    assert len(first) == 2
    assert [one.delivery_id for one in second] == [last.pk]


@pytest.mark.django_db
def test_a_tick_sends_batch_after_batch() -> None:
    make_hooks(tasks.DELIVERIES_PER_BATCH + 3)

    tried = tasks.tick(AT)

    assert tried == len(SimulatedSender.sent) == tasks.DELIVERIES_PER_BATCH + 3
    assert tasks.tick(AT) == 0


@pytest.mark.django_db
def test_what_the_time_does_not_suffice_for_is_left_to_the_next_tick() -> None:
    make_hooks(3)
    answers = iter([True, False, False])

    failed = send_claimed(
        claimed=claim(),
        senders={"webhook": SimulatedSender()},
        has_time=lambda: next(answers),
        at=AT,
    )

    left = NotificationDelivery.objects.filter(state="pending")
    assert failed == 0
    assert len(SimulatedSender.sent) == 1
    assert [(row.attempts, row.next_at) for row in left] == [(0, AT), (0, AT)]
    assert len(claim()) == 2


@pytest.mark.django_db
def test_what_is_left_and_was_claimed_by_others_stays_theirs() -> None:
    make_hooks()
    late = claim()
    later = claim(seconds=int(LEASE.total_seconds()))

    send_claimed(claimed=late, senders={}, has_time=lambda: False, at=AT)

    assert NotificationDelivery.objects.get().next_at == later[0].claimed_until


@pytest.mark.django_db
def test_a_tick_stops_sending_before_the_time_limit_of_its_task() -> None:
    make_hooks(3)
    moments = iter([0, 0, 0, *[tasks.SENDING_SECONDS] * 9])

    tasks.tick(AT, clock=lambda: next(moments))

    assert len(SimulatedSender.sent) == 1
    assert NotificationDelivery.objects.filter(state="pending", next_at=AT).count() == 2


def test_a_tick_ends_within_its_limit_and_its_leases() -> None:
    last_end = tasks.SENDING_SECONDS + tasks.DELIVERY_SECONDS_MAX

    assert last_end <= TASK_SOFT_TIME_LIMIT_SECONDS
    assert LEASE.total_seconds() > TASK_SOFT_TIME_LIMIT_SECONDS


@pytest.mark.django_db
def test_a_batch_in_which_somebody_is_away_is_the_last_of_its_tick() -> None:
    make_hooks(tasks.DELIVERIES_PER_BATCH + 3)
    SimulatedSender.failing.add(f"{HOOK}/3")
    NotificationDelivery.objects.filter(address=f"{HOOK}/3").update(next_at=AT - timedelta(hours=1))

    first, second = tasks.tick(AT), tasks.tick(AT)

    assert (first, second) == (tasks.DELIVERIES_PER_BATCH, 3)


class Watching:
    """A sender that looks whether a transaction is open."""

    def __init__(self) -> None:
        self.open: list[bool] = []

    def send(self, notification: OutgoingNotification) -> None:  # noqa: ARG002 - As the protocol.
        self.open.append(connection.in_atomic_block)


@pytest.mark.usefixtures("committed_db")
def test_nothing_is_sent_inside_a_transaction_and_two_claims_share_nothing() -> None:
    make_hooks(40)
    barrier = Barrier(4)

    def take() -> list[str]:
        try:
            barrier.wait(timeout=10)
            return [one.notification.address for one in claim(10)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        taken = [f.result(timeout=30) for f in [pool.submit(take) for _ in range(4)]]
    watching = Watching()
    NotificationDelivery.objects.update(next_at=AT)
    send_claimed(claimed=claim(1), senders={"webhook": watching}, at=AT)

    addresses = [address for batch in taken for address in batch]
    assert len(addresses) == len(set(addresses))
    assert watching.open == [False]

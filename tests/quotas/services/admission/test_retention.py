"""Reservations of long ago are purged; what counts, and what is about a living pod, never is."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import override_settings
from structlog.testing import capture_logs

from metering.models import ClaimConsumer, QueuedPod
from quotas import tasks
from quotas.domain.admission.live_use import LiveUseSweep
from quotas.models import AdmissionRefusal, AdmittedPod, QuotaLimit, Reservation
from quotas.selectors.gauges import refusals_by_code
from quotas.services.admission.retention import (
    PurgedReservations,
    fold_refusals,
    purge_admitted_pods,
    purge_reservations,
)
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Cluster, NamespaceBinding
from tenants.services import retention
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, beat, counted, drifted, end, see, start, sweep
from tests.support.quotas.builders import (
    actor_of,
    audit_actions,
    make_refusal,
    make_reservation,
)

KEPT = timedelta(days=35)
SECOND = timedelta(seconds=1)
LONG_AFTER = AT + KEPT + timedelta(days=1)
ACTOR = system_actor("tests")


def released(
    cluster: Cluster, cast: Cast, at: datetime, reason: str = "ended", **fields: object
) -> Reservation:
    """Return a reservation that was released at a time."""
    row = make_reservation(cluster, cast.llm)
    reported: dict[str, Any] = {
        "state": "released",
        "released_at": at,
        "release_reason": reason,
        **fields,
    }
    Reservation.objects.filter(pk=row.pk).update(**reported)
    return row


def left() -> list[str]:
    return list(Reservation.objects.order_by("pk").values_list("pod_uid", flat=True))


def purge(at: datetime = AT) -> int:
    return purge_reservations(kept=KEPT, actor=ACTOR, at=at)


def test_what_was_released_is_purged_after_its_days(cluster: Cluster, cast: Cast) -> None:
    old = AT - KEPT - SECOND
    for reason in ("ended", "gone", "expired", "handed_over", "unbound"):
        released(cluster, cast, old, reason)
    young = released(cluster, cast, AT - KEPT)

    with capture_logs() as lines:
        purged = purge()

    assert (purged, left()) == (5, [young.pod_uid])
    assert [(line["event"], line["reservations"]) for line in lines] == [
        ("quotas.retention.purged", 5)
    ]
    entry = AuditEntry.objects.get(action="quotas:reservation:purged")
    assert entry.facts == {
        "reservations": 5,
        "released_before": (AT - KEPT).isoformat(),
    }
    assert (entry.organization_id, entry.actor_label) == (None, ACTOR.label)
    assert purge() == 0
    assert audit_actions().count("quotas:reservation:purged") == 1


def test_what_counts_is_kept_however_old_it_is(cluster: Cluster, limit: QuotaLimit) -> None:
    ask(cluster)
    ask(cluster, uid="pod-2")
    see(cluster)
    start(cluster, "pod-2")
    sweep(AT)
    before = counted(limit)

    assert purge(AT + 10 * KEPT) == 0

    assert left() == ["pod-1", "pod-2"]
    assert counted(limit) == before == (1, 1, 0, 0)
    assert drifted() == []


def test_a_released_reservation_of_a_living_pod_is_kept_until_the_pod_is_gone(
    cluster: Cluster, cast: Cast
) -> None:
    old = AT - KEPT - SECOND
    bound, waiting, sharing = (released(cluster, cast, old, "unbound") for _ in range(3))
    allocation = start(cluster, bound.pod_uid)
    see(cluster, waiting.pod_uid)
    claim = start(cluster, "claim-1", resource="claim/gpu")
    ClaimConsumer.objects.create(
        cluster=cluster,
        claim_uid="claim-1",
        pod_uid=sharing.pod_uid,
        pod_name=sharing.pod_name,
        begin_at=AT,
    )

    kept = purge()
    end(allocation, AT)
    first = purge()
    QueuedPod.objects.update(gone_at=AT)
    second = purge()
    end(claim, AT)
    third = purge()

    assert (kept, first, second, third) == (0, 1, 1, 1)
    assert left() == []


def test_a_device_claim_that_a_pod_waits_for_is_kept(cluster: Cluster, cast: Cast) -> None:
    old = AT - KEPT - SECOND
    claim = released(cluster, cast, old, "expired", resource="claim/gpu")
    see(cluster, "waits", requests={f"claim/{claim.pod_name}": 1})

    assert purge() == 0
    QueuedPod.objects.update(gone_at=AT)
    assert purge() == 1


def test_a_namespace_that_comes_back_brings_no_bypass_after_the_days(
    cluster: Cluster, cast: Cast, limit: QuotaLimit
) -> None:
    ask(cluster)
    start(cluster)
    sweep(AT)
    NamespaceBinding.objects.update(valid=(AT - SECOND, AT + SECOND))
    assert sweep(AT + SECOND) == LiveUseSweep(released=1)

    purge(LONG_AFTER)
    bind(cluster, "llm", cast.llm, begin_at=LONG_AFTER)
    swept = sweep(LONG_AFTER)

    assert (swept.changed, swept.found, swept.bypasses) == (1, 0, ())
    assert counted(limit) == (1, 0, 0, 0)
    assert Reservation.objects.get().origin == "admission"


def test_a_uid_is_refused_after_its_end_for_as_long_as_it_is_kept(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster)
    allocation = start(cluster)
    end(allocation, AT)
    beat(cluster)
    sweep(AT)

    purge(AT + KEPT)
    again = ask(cluster, at=AT + KEPT)

    assert again.code.value == "replayed_otherwise"
    assert counted(limit) == (0, 0, 0, 0)


def test_batches_are_bounded_and_leave_an_entry_each(
    cluster: Cluster, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        released(cluster, cast, AT - KEPT - timedelta(hours=5 - number))
    times = iter([True, True, False])

    purged = purge_reservations(kept=KEPT, has_time=lambda: next(times), actor=ACTOR, at=AT)
    entries = AuditEntry.objects.filter(action="quotas:reservation:purged")
    reported = [entry.facts["reservations"] for entry in entries]

    assert (purged, left(), reported) == (4, ["let-in-4"], [2, 2])
    assert purge() == 1


def test_living_pods_at_the_front_hold_up_no_batch(
    cluster: Cluster, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    rows = [released(cluster, cast, AT - KEPT - timedelta(hours=9 - n)) for n in range(6)]
    for row in rows[:3]:
        start(cluster, row.pod_uid)

    assert purge() == 3
    assert left() == [row.pod_uid for row in rows[:3]]


@pytest.mark.django_db
def test_released_reservations_are_found_by_index() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
        cursor.execute(
            "EXPLAIN SELECT id FROM quotas_reservation WHERE state = 'released'"
            " AND released_at < now() ORDER BY released_at LIMIT 10"
        )
        released_plan = "\n".join(row[0] for row in cursor.fetchall())
        cursor.execute(
            "EXPLAIN SELECT id FROM quotas_admissionrefusal"
            " WHERE last_at < now() ORDER BY last_at LIMIT 10"
        )
        refused_plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "Index Scan using reservation_released" in released_plan
    assert "Index Scan using admission_refusal_last" in refused_plan


@pytest.mark.parametrize("purge_them", [purge_reservations, fold_refusals, purge_admitted_pods])
def test_only_the_service_itself_forgets(
    cluster: Cluster, cast: Cast, purge_them: Callable[..., int]
) -> None:
    released(cluster, cast, AT - 2 * KEPT)
    make_refusal(cluster, cast.llm)

    with pytest.raises(ValueError, match="only the service itself"):
        purge_them(kept=KEPT, actor=actor_of(cast.frank), at=LONG_AFTER)

    assert (Reservation.objects.count(), AdmissionRefusal.objects.count()) == (1, 1)


def refused(cluster: Cluster, cast: Cast, at: datetime, **fields: object) -> AdmissionRefusal:
    row = make_refusal(cluster, cast.llm)
    reported: dict[str, Any] = {"first_at": at - timedelta(hours=1), "last_at": at, **fields}
    AdmissionRefusal.objects.filter(pk=row.pk).update(**reported)
    return row


def sums() -> list[tuple[Any, ...]]:
    rows = AdmissionRefusal.objects.filter(namespace="").order_by("cluster__slug", "code", "size")
    return list(rows.values_list("cluster__slug", "code", "size", "count", "first_at", "last_at"))


def test_old_refusals_are_added_up_and_their_number_stays(cluster: Cluster, cast: Cast) -> None:
    old, hour = AT - KEPT - timedelta(days=2), timedelta(hours=1)
    refused(cluster, cast, old, count=3)
    refused(cluster, cast, old + hour, count=4)
    refused(cluster, cast, old, code="suspended", size="")
    refused(make_cluster("ampere"), cast, old)
    young = refused(cluster, cast, AT - KEPT, count=5)
    before = refusals_by_code()

    with capture_logs() as lines:
        folded = fold_refusals(kept=KEPT, actor=ACTOR, at=AT)

    assert folded == 4
    assert sums() == [
        ("ampere", "limit_reached", "large", 1, old - hour, old),
        ("hopper", "limit_reached", "large", 7, old - hour, old + hour),
        ("hopper", "suspended", "", 1, old - hour, old),
    ]
    assert AdmissionRefusal.objects.exclude(namespace="").get() == young
    assert refusals_by_code() == before == {"limit_reached": 13, "suspended": 1}
    assert [(line["event"], line["refusals"]) for line in lines] == [
        ("quotas.retention.aggregated", 4)
    ]


def test_later_ones_are_added_to_the_same_row_and_none_twice(cluster: Cluster, cast: Cast) -> None:
    refused(cluster, cast, AT - KEPT - SECOND, count=3)
    assert fold_refusals(kept=KEPT, actor=ACTOR, at=AT) == 1
    refused(cluster, cast, AT, count=2**31 - 1)

    later = AT + KEPT + SECOND

    assert fold_refusals(kept=KEPT, actor=ACTOR, at=later) == 1
    assert fold_refusals(kept=KEPT, actor=ACTOR, at=later) == 0
    ((_, _, _, count, first_at, last_at),) = sums()
    assert (count, first_at, last_at) == (
        2**31 - 1,
        AT - KEPT - SECOND - timedelta(hours=1),
        AT,
    )
    row = AdmissionRefusal.objects.get()
    assert (row.workload, row.message, row.username, row.project) == ("", "", "", None)


def test_refusals_are_added_up_in_bounded_batches(
    cluster: Cluster, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    for number in range(5):
        refused(cluster, cast, AT - KEPT - timedelta(hours=5 - number))
    times = iter([True, False])

    folded = fold_refusals(kept=KEPT, has_time=lambda: next(times), actor=ACTOR, at=AT)

    assert (folded, AdmissionRefusal.objects.exclude(namespace="").count()) == (2, 3)
    assert [row[3] for row in sums()] == [2]
    assert fold_refusals(kept=KEPT, actor=ACTOR, at=AT + SECOND) == 3
    entries = AuditEntry.objects.filter(action="quotas:refusal:folded").order_by("occurred_at")
    since, later = (AT - KEPT).isoformat(), (AT + SECOND - KEPT).isoformat()
    assert sorted((entry.facts["tried_before"], entry.facts["refusals"]) for entry in entries) == [
        (since, 2),
        (later, 1),
        (later, 2),
    ]
    assert {(entry.object_kind, entry.actor_label) for entry in entries} == {
        ("admission_refusal", ACTOR.label)
    }
    assert fold_refusals(kept=KEPT, actor=ACTOR, at=AT + SECOND) == 0
    assert entries.count() == 3


@override_settings(RESERVATION_KEPT_DAYS=40, REFUSALS_KEPT_DAYS=50)
def test_the_tick_keeps_what_the_settings_say(cluster: Cluster, cast: Cast) -> None:
    released(cluster, cast, AT - timedelta(days=40, seconds=1))
    kept = released(cluster, cast, AT - timedelta(days=40))
    refused(cluster, cast, AT - timedelta(days=50, seconds=1))
    refused(cluster, cast, AT - timedelta(days=50))
    for uid, second in (("old", 1), ("young", 0)):
        admitted_at = AT - timedelta(days=40, seconds=second)
        AdmittedPod.objects.create(cluster=cluster, pod_uid=uid, admitted_at=admitted_at)

    purged = tasks.purge(AT)

    assert purged == PurgedReservations(reservations=1, refusals=1, admitted_pods=1)
    assert AdmittedPod.objects.get().pod_uid == "young"
    entry = AuditEntry.objects.get(action="quotas:admitted_pod:purged")
    assert entry.facts["admitted_pods"] == 1

    assert left() == [kept.pod_uid]
    assert AdmissionRefusal.objects.exclude(namespace="").count() == 1
    assert len(sums()) == 1


def test_the_tick_begins_nothing_after_a_minute(cluster: Cluster, cast: Cast) -> None:
    released(cluster, cast, AT - timedelta(days=400))
    nanoseconds = iter([0, *[60_000_000_000] * 3])

    assert tasks.purge(AT, clock_ns=lambda: next(nanoseconds)) == PurgedReservations()
    assert left() == ["let-in-0"]

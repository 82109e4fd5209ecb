"""What two sources dispute stays off a sealed hour's bill until both agree or a person decides."""

from datetime import timedelta

import pytest

from metering.domain.collection.reconciliation import Side
from metering.models import (
    CapacityRecord,
    MeteringException,
    PodAllocation,
    UsageRecord,
    WindowRecheck,
)
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sweeping import Worker
from metering.services.corrections.exceptions import accept_side, resolve_exception
from metering.services.corrections.recheck_ends import LAPSED_SENTENCE
from metering.services.corrections.review import ask_correction
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import ledgered, offered, watched
from tests.support.metering.collecting import exceptions
from tests.support.metering.rechecking import (
    FIRST,
    SEALED_AT,
    SECOND,
    corrections,
    hours_later,
    learn,
    recheck,
    seal_hour,
    sums,
)
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    ReplayedSource,
    ended_pod,
    moment,
    pod,
    source_down,
    ticks,
)

OPEN_DISPUTE = [("differs", "a nvidia_com_gpu", 1800, "open")]

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The tenant's binding.
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster, until=400 * 3600)
    offered(cluster)


@pytest.fixture
def disputed(cluster: Cluster) -> Worker:
    """Return the worker of a sealed hour: 1800 s are reported by both, 1800 s by the API alone."""
    ledgered(cluster, "a")
    metering = seal_hour(ended_pod("a", -600, 1800))
    assert sums() == {"a": 1800}
    assert causes() == OPEN_DISPUTE
    return metering


def causes() -> list[tuple[str, str, int, str]]:
    rows = MeteringException.objects.order_by("kind", "subject")
    return list(rows.values_list("kind", "subject", "held_unit_seconds", "state"))


def assert_nothing_changed() -> None:
    assert sums() == {"a": 1800}
    assert corrections() == []
    assert causes() == OPEN_DISPUTE


def test_a_dispute_is_not_billed_because_prometheus_does_not_answer(disputed: Worker) -> None:
    with source_down(disputed):
        swept = recheck(disputed)

    assert (swept.done, swept.postponed, swept.failed) == (0, 1, 0)
    assert_nothing_changed()


def test_a_dispute_is_not_billed_because_prometheus_lost_the_hour(disputed: Worker) -> None:
    learn(disputed, ticks=ticks(3400, 5400))

    swept = recheck(disputed)

    assert (swept.done, swept.postponed) == (0, 1)
    assert_nothing_changed()


def test_a_dispute_is_not_billed_because_prometheus_lost_the_pod(disputed: Worker) -> None:
    learn(disputed)

    swept = recheck(disputed)

    assert (swept.done, swept.corrections) == (1, 0)
    assert sums() == {"a": 1800}
    assert ("differs", "a nvidia_com_gpu", 1800, "open") in causes()


def test_a_source_that_stays_away_is_waited_for_until_nobody_can_tell(disputed: Worker) -> None:
    assert isinstance(disputed.source, ReplayedSource)
    disputed.source.remembers = timedelta(days=15)
    with source_down(disputed):
        recheck(disputed)
        swept = recheck(disputed, hours_later(16 * 24))

    assert swept.done == 1
    assert WindowRecheck.objects.get(state="lapsed").last_error == LAPSED_SENTENCE
    assert sums() == {"a": 1800}


def test_a_source_that_was_away_from_the_start_is_not_waited_for(cluster: Cluster) -> None:
    ledgered(cluster, "a")
    metering = seal_hour(ticks=ticks(3400, 5400))
    ledgered(cluster, "late")
    with source_down(metering):
        swept = recheck(metering)

    assert (swept.done, swept.postponed) == (1, 0)
    assert sums() == {"a": 3600, "late": 3600}


def test_a_dispute_ends_when_both_tell_the_same(disputed: Worker) -> None:
    learn(disputed, pod("a"))

    recheck(disputed)

    assert sums() == {"a": 3600}
    assert corrections() == [("released", "posted", 1, 1800)]
    assert causes() == [("differs", "a nvidia_com_gpu", 1800, "resolved")]
    assert CapacityRecord.objects.get().held_unit_seconds == 0


def test_what_both_come_to_tell_is_billed_while_the_rest_stays_in_dispute(
    disputed: Worker,
) -> None:
    learn(disputed, ended_pod("a", -600, 2400))

    recheck(disputed)

    assert sums() == {"a": 2400}
    assert exceptions() == [("differs", "a nvidia_com_gpu", 1200)]


def test_what_a_person_left_off_the_bill_no_machine_bills(disputed: Worker) -> None:
    found = MeteringException.objects.get()
    resolve_exception(exception_id=found.pk, note="A known outage.", actor=ACTOR, at=SEALED_AT)
    learn(disputed, pod("a"))

    recheck(disputed)

    assert sums() == {"a": 1800}
    assert corrections() == []


def test_what_a_person_decided_is_billed(disputed: Worker) -> None:
    found = MeteringException.objects.get()
    accept_side(exception_id=found.pk, side=Side.KUBERNETES, note="It ran.", actor=ACTOR, at=FIRST)

    recheck(disputed, SECOND)

    assert sums() == {"a": 3600}
    assert CapacityRecord.objects.get().held_unit_seconds == 0


def test_accepted_evidence_is_not_taken_back_because_its_source_is_away(
    disputed: Worker,
) -> None:
    found = MeteringException.objects.get()
    accept_side(
        exception_id=found.pk, side=Side.PROMETHEUS, note="It ended.", actor=ACTOR, at=FIRST
    )
    learn(disputed)

    swept = recheck(disputed, SECOND)

    assert (swept.failed, swept.postponed) == (0, 0)
    assert (sums(), corrections()) == ({"a": 1800}, [])


def test_less_than_a_person_has_left_is_reported_and_stops_nothing_else(cluster: Cluster) -> None:
    row = ledgered(cluster, "a")
    metering = seal_hour(pod("a"))
    ask_correction(
        record=UsageRecord.objects.get(),
        unit_seconds=None,
        reason="A broken node.",
        is_four_eyes=False,
        actor=ACTOR,
        at=SEALED_AT,
    )
    PodAllocation.objects.filter(pk=row.pk).update(end_at=moment(1800), end_kind="exact")
    ledgered(cluster, "late")
    learn(metering, ended_pod("a", -600, 1800), pod("late"))

    swept = recheck(metering)

    assert (swept.done, swept.failed) == (1, 0)
    assert sums() == {"a": 0, "late": 3600}
    assert exceptions() == [("uncertain_end", "a nvidia_com_gpu", 0)]
    assert "correction left 0 unit-seconds" in MeteringException.objects.get().summary


def test_a_difference_that_is_found_later_holds_nothing_that_is_billed(cluster: Cluster) -> None:
    ledgered(cluster, "a")
    metering = seal_hour(ticks=ticks(3400, 5400))
    learn(metering, ended_pod("a", -600, 1800))

    recheck(metering)

    assert (sums(), corrections()) == ({"a": 3600}, [])
    assert ("differs", "a nvidia_com_gpu", 0) in exceptions()
    assert MeteringException.objects.get(kind="differs").summary == (
        "pod-a is reported otherwise than when the hour was sealed: 3600 unit-seconds are billed "
        "and 0 are held."
    )


def test_a_difference_that_is_so_again_is_open_again(disputed: Worker) -> None:
    learn(disputed, pod("a"))
    recheck(disputed)
    assert exceptions() == []
    learn(disputed, ended_pod("a", -600, 1800))

    recheck(disputed, SECOND)

    assert exceptions() == [("differs", "a nvidia_com_gpu", 0)]
    assert sums() == {"a": 3600}


def test_accepted_evidence_that_is_purged_in_a_sealed_hour_is_held_again() -> None:
    metering = seal_hour(ended_pod("g", 0, 1800))
    found = MeteringException.objects.get()
    accept_side(exception_id=found.pk, side=Side.PROMETHEUS, note="It ran.", actor=ACTOR, at=FIRST)
    learn(metering)

    recheck(metering, SECOND)

    assert (sums(), exceptions()) == ({}, [("prometheus_only", "g nvidia_com_gpu", 1800)])

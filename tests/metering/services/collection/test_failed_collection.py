"""Collection again, by others, or from answers that cannot be used."""

from dataclasses import replace
from datetime import timedelta
from hashlib import sha256

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.collection.windows import WindowState
from metering.domain.errors import ClaimLostError
from metering.models import (
    ExceptionKind,
    ExceptionState,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    UsageRecord,
)
from metering.protocols import Observation
from metering.services.collection.collecting import collect_window
from metering.services.collection.sweeping import Worker
from tenants.models import AuditEntry, Cluster
from tests.support.metering.collecting import DUE, claim, collect, exceptions, usage
from tests.support.metering.ledger import everything
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    device,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    source_down,
    ticks,
    worker,
)

pytestmark = pytest.mark.usefixtures("project")


# ---------------------------------------------------------------- answers that cannot be used


def test_a_source_that_does_not_answer_makes_the_window_due_later_and_shows_so() -> None:
    metering = worker(observation(pod("a")))
    with source_down(metering):
        failed = collect_window(claimed=claim(), source=metering.source, actor=ACTOR, at=DUE)

    assert failed.state is WindowState.OPEN
    window = MeteringWindow.objects.get()
    assert (window.failures, window.attempt) == (1, 0)
    assert window.last_error == "Prometheus did not answer."
    assert timedelta(seconds=15) <= window.not_before - DUE <= timedelta(seconds=19)
    assert exceptions() == [("source_unavailable", "", 0)]
    assert usage() == []

    collect(observation(pod("a")))

    assert exceptions() == []
    assert len(usage()) == 1
    assert MeteringWindow.objects.get().failures == 0


def test_an_address_that_is_refused_at_use_is_audited() -> None:
    metering = worker(observation(pod("a")))
    with source_down(metering, "forbidden_address"):
        collect_window(claimed=claim(), source=metering.source, actor=ACTOR, at=DUE)

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert entry.facts == {"code": "forbidden_address", "cluster": Cluster.objects.get().slug}


@pytest.mark.parametrize(
    "broken",
    [
        observation(expected_ticks=0),
        observation(ticks=tuple(reversed(ticks()))),
        observation(pod("a"), pod("a")),
    ],
)
def test_an_answer_that_cannot_be_believed_is_a_failed_attempt(broken: Observation) -> None:
    assert collect(broken).state is WindowState.OPEN

    [found] = MeteringException.objects.all()
    assert (found.kind, found.details) == ("source_unavailable", {"reason": "bad_sample"})
    assert usage() == []


@pytest.mark.parametrize(
    ("broken", "subject", "held"),
    [
        (observation(pod(""), pod("a")), f"{sha256(b'').hexdigest()} nvidia_com_gpu", 3600),
        (observation(pod("b", name="n" * 254), pod("a")), "b nvidia_com_gpu", 3600),
        (observation(pod("a"), nodes=(node(), node("bad", covered_seconds=-1))), "bad", 0),
        (
            observation(pod("a"), nodes=(node(), node("bad", allocatable={"nvidia_com_gpu": -1}))),
            "bad",
            0,
        ),
    ],
)
def test_a_pod_or_node_that_cannot_be_stored_is_an_exception_of_its_own(
    broken: Observation, subject: str, held: int
) -> None:
    assert collect(broken).state is WindowState.RECONCILED

    assert exceptions() == [("inconsistent_metrics", subject, held)]
    assert [row[0] for row in usage()] == ["a"]


def test_an_answer_about_another_hour_is_a_mistake_of_the_source() -> None:
    seen = replace(observation(), start_at=moment(-3600), end_at=HOUR)
    source = worker().source
    source.seen[HOUR] = seen  # type: ignore[attr-defined]

    with pytest.raises(ValueError, match="another window"):
        collect_window(claimed=claim(), source=source, actor=ACTOR, at=DUE)


def test_low_coverage_is_retried_then_becomes_a_gap() -> None:
    half = observation(pod("a"), ticks=ticks(begin=1800))
    states = [collect(half).state for _ in range(6)]

    assert states == [WindowState.OPEN] * 5 + [WindowState.GAP]
    assert usage() == []
    [found] = MeteringException.objects.all()
    assert (found.kind, found.state) == (ExceptionKind.LOW_COVERAGE, ExceptionState.OPEN)
    assert found.details == {
        "expected": 120,
        "observed": 60,
        "coverage": "0.50000",
        "unobserved_seconds": 1777,
        "unobserved_targets": "",
    }


def test_an_old_window_with_low_coverage_is_a_gap_at_once() -> None:
    half = observation(pod("a"), ticks=ticks(begin=1800))

    collected = collect_window(
        claimed=claim(), source=worker(half).source, actor=ACTOR, at=DUE + timedelta(days=2)
    )

    assert collected.state is WindowState.GAP


def test_a_window_whose_end_nobody_saw_is_never_posted() -> None:
    MeteringWindow.objects.update(accepts_low_coverage=True)

    assert collect(observation(pod("a"), ticks=ticks(end=3590))).state is WindowState.OPEN

    assert "No scrape took place after the hour." in MeteringException.objects.get().summary
    assert usage() == []


def test_a_later_attempt_looks_further_ahead() -> None:
    metering = worker()
    claimed = replace(claim(), failures=2)
    at = DUE + timedelta(days=1)

    collect_window(claimed=claimed, source=metering.source, actor=ACTOR, at=at)

    assert metering.source.asked == [(HOUR, moment(3600 + 4 * LATER))]  # type: ignore[attr-defined]


# ---------------------------------------------------------------- again, and by others


def test_metering_a_window_twice_changes_nothing() -> None:
    seen = observation(
        pod("uid-1", units=2),
        ended_pod("b", 10, 20),
        pod("c", namespace="stray"),
        devices=(device(),),
    )
    collect(seen)
    before = everything()

    collect(seen)

    assert everything() == before
    assert UsageRecord.objects.count() == 2


def test_an_overtaken_worker_writes_nothing() -> None:
    claimed = claim()
    MeteringWindow.objects.update(fence=claimed.fence + 1)

    with pytest.raises(ClaimLostError) as refusal:
        collect_window(
            claimed=claimed, source=worker(observation(pod("a"))).source, actor=ACTOR, at=DUE
        )

    assert refusal.value.code == "metering_claim_lost"
    assert not UsageRecord.objects.exists()
    assert not PodAllocation.objects.exists()
    assert MeteringWindow.objects.get().state == "collecting"


def test_an_overtaken_worker_cannot_report_a_failure_either() -> None:
    metering: Worker = worker()
    claimed = claim()
    MeteringWindow.objects.update(fence=claimed.fence + 1)

    with source_down(metering), pytest.raises(ClaimLostError):
        collect_window(claimed=claimed, source=metering.source, actor=ACTOR, at=DUE)

    assert not MeteringException.objects.exists()


def test_the_number_of_statements_does_not_grow_with_the_pods() -> None:
    def seen(pods: int) -> Observation:
        return observation(
            *(pod(f"uid-{index}") for index in range(pods)),
            pod("stray", namespace="stray"),
            nodes=(node(allocatable={"nvidia_com_gpu": 2000}),),
        )

    counts = []
    # The first stores the catalogue, the second reads it once for the process.
    collect(seen(1))
    collect(seen(1))
    for pods in (10, 1000):
        claimed = claim()
        source = worker(seen(pods)).source
        with CaptureQueriesContext(connection) as queries:
            collect_window(claimed=claimed, source=source, actor=ACTOR, at=DUE)
        counts.append(len(queries))

    # Three of them for facts: which are known, the new ones, and their numbers.
    assert counts[0] == counts[1] == 21
    assert UsageRecord.objects.count() == 1000

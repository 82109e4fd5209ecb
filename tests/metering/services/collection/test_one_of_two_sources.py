"""An hour that rests on one source: the other is away, or there is none, and the hour says so."""

from datetime import datetime, timedelta

import pytest

from metering.domain.collection.windows import GapPolicy, MeteringPolicy, WindowState
from metering.models import CapacityRecord, MeteringException, MeteringWindow, PodAllocation
from metering.protocols import Observation
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.collecting import Collection, collect_window
from metering.services.collection.hour_decisions import decide_window, retry_window
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import ledgered, offered, watched
from tests.support.metering.collecting import (
    DUE,
    claim,
    collect,
    decide_last_known,
    exceptions,
    usage,
)
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    ReplayedSource,
    ended_pod,
    moment,
    observation,
    pod,
    source_down,
    ticks,
    worker,
)

HALF = ticks(begin=1800)
BLIND_AT_END = ticks(end=3500)


@pytest.fixture(autouse=True)
def stage(project: Project) -> None:  # noqa: ARG001 - The open window.
    ensure_catalogue(actor=ACTOR, at=HOUR)


def without_prometheus(cluster: Cluster) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(prometheus_url="")


def collect_down(*, at: datetime = DUE, policy: MeteringPolicy | None = None) -> Collection:
    """Meter the one window while Prometheus does not answer."""
    metering = worker()
    with source_down(metering):
        return collect_window(
            claimed=claim(),
            source=metering.source,
            actor=ACTOR,
            at=at,
            policy=policy or metering.policy,
        )


def attempt(seen: Observation, *, at: datetime, policy: MeteringPolicy) -> Collection:
    return collect_window(
        claimed=claim(), source=worker(seen).source, actor=ACTOR, at=at, policy=policy
    )


def window() -> MeteringWindow:
    return MeteringWindow.objects.get()


# ---------------------------------------------------------------- only the watch


def test_a_cluster_without_prometheus_is_metered_from_the_ledger_alone(cluster: Cluster) -> None:
    without_prometheus(cluster)
    watched(cluster)
    offered(cluster)
    ledgered(cluster, "a", units=2)
    ledgered(cluster, "b", 600, 1500)
    source = ReplayedSource()

    collected = collect_window(claimed=claim(), source=source, actor=ACTOR, at=DUE)

    assert (collected.state, source.asked) == (WindowState.RECONCILED, [])
    assert [(row[0], row[6]) for row in usage()] == [("a", 7200), ("b", 900)]
    assert exceptions() == []
    found = window()
    assert (found.sources, found.expected_ticks, found.coverage) == (["kubernetes"], None, None)
    assert str(found.watch_coverage) == "1.00000"
    assert found.reconciliation["pods"] == {"kubernetes_only_explained": 2}
    capacity = CapacityRecord.objects.get()
    assert capacity.capacity_unit_seconds == 28_800
    assert capacity.billed_unit_seconds + capacity.idle_unit_seconds == 28_800


def test_a_silent_watch_is_waited_for_and_an_old_hour_becomes_a_gap(cluster: Cluster) -> None:
    without_prometheus(cluster)
    watched(cluster, until=3000)
    states = [collect_down().state for _ in range(8)]

    assert states == [WindowState.OPEN] * 8
    assert exceptions() == [("low_coverage", "", 0)]
    assert window().last_error == (
        "600 s of this hour were not observed: 13:50:00 to 14:00:00 UTC. "
        "The watch observed 83.3\N{NO-BREAK SPACE}% of the hour, and nothing after it."
    )

    late = collect_down(at=DUE + timedelta(days=2))

    assert late.state is WindowState.GAP
    assert MeteringException.objects.get().details == {"watch_coverage": "0.83333"}


def test_a_hole_that_the_watch_lost_becomes_a_gap_after_some_attempts(cluster: Cluster) -> None:
    without_prometheus(cluster)
    watched(cluster, until=600)
    watched(cluster, 1200)

    assert [collect_down().state for _ in range(6)] == [WindowState.OPEN] * 5 + [WindowState.GAP]


def test_a_resumed_watch_lost_nothing(cluster: Cluster) -> None:
    without_prometheus(cluster)
    watched(cluster, until=600)
    watched(cluster, 1200, is_resumed=True)
    ledgered(cluster, "a")

    assert collect_down().state is WindowState.RECONCILED
    assert str(window().watch_coverage) == "1.00000"


# ---------------------------------------------------------------- Prometheus away


def test_prometheus_away_for_long_leaves_the_hour_to_the_healthy_watch(cluster: Cluster) -> None:
    watched(cluster)
    offered(cluster)
    ledgered(cluster, "a")

    states = [collect_down().state for _ in range(6)]

    assert states == [WindowState.OPEN] * 5 + [WindowState.RECONCILED]
    assert [(row[0], row[6]) for row in usage()] == [("a", 3600)]
    assert exceptions() == [("single_source", "", 0)]
    found = MeteringException.objects.get(kind="single_source")
    assert found.details == {"reason": "timeout", "watch_coverage": "1.00000"}
    assert found.summary == (
        "This hour rests on the watch of the Kubernetes API, because Prometheus was away for some "
        "of it."
    )
    assert window().sources == ["kubernetes"]


def test_prometheus_away_for_long_is_waited_for_without_a_watch() -> None:
    assert [collect_down().state for _ in range(8)] == [WindowState.OPEN] * 8


def test_an_hour_half_scraped_rests_on_the_watch_at_once(cluster: Cluster) -> None:
    watched(cluster)
    ledgered(cluster, "a", 0, 1000)
    ledgered(cluster, "b", 2000, 3000)

    seen = observation(ended_pod("b", 2000, 3000), ticks=HALF)

    assert collect(seen).state is WindowState.RECONCILED
    assert [(row[0], row[6]) for row in usage()] == [("a", 1000), ("b", 1000)]
    assert [kind for kind, _, _ in exceptions()] == ["single_source"]
    assert window().sources == ["kubernetes", "stub"]
    assert window().reconciliation["pods"] == {"agreed": 1, "kubernetes_only_explained": 1}


def test_scrapes_that_stopped_before_the_end_are_waited_for_then_done_without(
    cluster: Cluster,
) -> None:
    watched(cluster)
    ledgered(cluster, "a", -600, 3550)
    seen = observation(pod("a", last_seen_at=BLIND_AT_END[-1]), ticks=BLIND_AT_END)

    states = [collect(seen).state for _ in range(6)]

    assert states == [WindowState.OPEN] * 5 + [WindowState.RECONCILED]
    assert [(row[0], row[6]) for row in usage()] == [("a", 3550)]
    assert [kind for kind, _, _ in exceptions()] == ["single_source"]


# ---------------------------------------------------------------- the watch away


def test_a_silent_watch_leaves_the_hour_to_prometheus_with_one_finding(cluster: Cluster) -> None:
    watched(cluster, until=600)
    ledgered(cluster, "a", -600)
    seen = observation(
        pod("a"), *(ended_pod(f"new-{index}", 1000 + index, 2000) for index in range(3))
    )

    assert collect(seen).state is WindowState.RECONCILED

    assert [(row[0], row[6]) for row in usage()] == [
        ("a", 3600),
        ("new-0", 1000),
        ("new-1", 999),
        ("new-2", 998),
    ]
    assert [kind for kind, _, _ in exceptions()] == ["single_source", "unknown_node"][:1]
    assert window().reconciliation["pods"] == {"agreed": 1, "recovered": 3}
    assert PodAllocation.objects.filter(source="prometheus").count() == 3


def test_an_end_the_silent_watch_missed_comes_from_prometheus(cluster: Cluster) -> None:
    watched(cluster, until=600)
    ledgered(cluster, "a", -600)

    collect(observation(ended_pod("a", -600, 1500)))

    assert [(row[0], row[6]) for row in usage()] == [("a", 1500)]
    assert window().reconciliation["pods"] == {"recovered": 1}
    row = PodAllocation.objects.get()
    assert (row.end_at, row.end_kind, row.source) == (None, "open", "kubernetes")


def test_a_pod_that_ended_while_the_watch_was_away_is_not_billed_for_ever(
    cluster: Cluster,
) -> None:
    watched(cluster, until=-7200)
    ledgered(cluster, "a", -9000)

    assert collect(observation()).state is WindowState.RECONCILED

    assert usage() == []


def test_what_was_recovered_goes_on_in_the_ledger_until_the_watch_is_back(
    cluster: Cluster,
) -> None:
    watched(cluster, until=600)
    collect(observation(pod("a", scheduled_at=moment(1000), last_seen_at=moment(2007))))
    collect(observation(ended_pod("a", 1000, 2500)))

    row = PodAllocation.objects.get()
    assert (row.end_at, row.end_kind) == (moment(2500), "exact")
    assert [(row[0], row[6]) for row in usage()] == [("a", 1500)]


# ---------------------------------------------------------------- nobody saw it


def test_an_hour_nobody_saw_waits_for_a_person(cluster: Cluster) -> None:
    watched(cluster, until=600)
    watched(cluster, 3000)
    seen = observation(pod("a"), ticks=HALF)

    assert [collect(seen).state for _ in range(6)][-1] is WindowState.GAP
    assert MeteringException.objects.get().details == {
        "expected": 120,
        "observed": 60,
        "coverage": "0.50000",
        "unobserved_seconds": 1177,
        "unobserved_targets": "",
        "watch_coverage": "0.33333",
    }
    assert str(window().watch_coverage) == "0.33333"


def hole() -> Observation:
    """Return an hour with a hole from 600 to 2400, in which one pod died and one was born."""
    dead = pod("died", scheduled_at=moment(-600), last_seen_at=moment(577))
    born = pod("born", scheduled_at=moment(2000), first_seen_at=moment(2407))
    kept = pod("kept")
    holed = tuple(tick for tick in ticks() if not moment(580) < tick < moment(2400))
    return observation(dead, born, kept, ticks=holed)


def decide(decision: GapPolicy) -> None:
    for _ in range(6):
        collect(hole())
    decide_window(window_id=window().id, decision=decision, note="Outage.", actor=ACTOR, at=DUE)
    claimed = claim()
    assert claimed.gap_policy is decision
    metering = worker(hole())
    collect_window(claimed=claimed, source=metering.source, actor=ACTOR, at=DUE)


def test_accepted_it_bills_what_was_seen() -> None:
    decide(GapPolicy.ACCEPT)

    assert [(row[0], row[6]) for row in usage()] == [("born", 1600), ("died", 577), ("kept", 3600)]
    assert exceptions() == [("uncertain_end", "died nvidia_com_gpu", 0)]


def test_as_last_known_it_bills_until_half_a_scrape_after_the_last_sample() -> None:
    decide(GapPolicy.LAST_KNOWN)

    assert [(row[0], row[6]) for row in usage()] == [("born", 1600), ("died", 592), ("kept", 3600)]
    found = MeteringException.objects.get(state="open")
    assert (found.kind, found.subject) == ("uncertain_end", "died nvidia_com_gpu")
    assert found.details == {"pod": "pod-died", "slack_seconds": 1815}
    assert found.summary.endswith("may have ended up to 1815 s later.")
    assert window().reconciliation == {"gap_policy": "last_known"}


def test_held_it_bills_nothing_and_keeps_every_unit_second() -> None:
    decide(GapPolicy.HOLD)

    assert usage() == []
    assert exceptions() == [
        ("held_hour", "born nvidia_com_gpu", 1600),
        ("held_hour", "died nvidia_com_gpu", 592),
        ("held_hour", "kept nvidia_com_gpu", 3600),
    ]
    capacity = CapacityRecord.objects.get()
    assert (capacity.billed_unit_seconds, capacity.held_unit_seconds) == (0, 5792)
    assert (window().state, window().gap_policy) == ("reconciled", "hold")


def test_metering_again_forgets_the_decision() -> None:
    decide(GapPolicy.HOLD)

    retry_window(window_id=window().id, actor=ACTOR, at=DUE)

    assert (window().gap_policy, window().accepts_low_coverage) == ("", False)


def test_as_last_known_counts_what_the_ledger_knows_from_after_the_hole(cluster: Cluster) -> None:
    ledgered(cluster, "gone", -600, source="prometheus", last_seen_at=moment(-23))
    ledgered(cluster, "back", -600, source="prometheus", last_seen_at=moment(7200))
    ledgered(cluster, "ended", -600, 1200, source="prometheus", last_seen_at=moment(7200))
    nothing = observation(ticks=(), nodes=())
    assert {collect(nothing).state for _ in range(6)} == {WindowState.OPEN}
    assert collect(nothing, at=DUE + timedelta(days=1)).state is WindowState.GAP
    decide_last_known()

    assert collect(nothing).state is WindowState.RECONCILED

    assert [(row[0], row[6]) for row in usage()] == [("back", 3600), ("ended", 1200)]
    assert PodAllocation.objects.get(pod_uid="gone").end_at is None


def test_as_last_known_ends_long_before_the_next_scrape(cluster: Cluster) -> None:
    ledgered(cluster, "old", -600, source="prometheus", last_seen_at=moment(-8))
    late = observation(ticks=ticks(begin=1800))
    decide_last_known(gap=late)
    collect(late)
    assert [(row[0], row[6]) for row in usage()] == [("old", 7)]
    assert exceptions() == [("uncertain_end", "old nvidia_com_gpu", 0)]
    assert PodAllocation.objects.get().end_at == moment(-8)


def test_as_last_known_a_watched_hour_is_metered_without_any_source(cluster: Cluster) -> None:
    watched(cluster, until=600)
    ledgered(cluster, "a")
    ledgered(cluster, "b", -600, 600, end_kind="vanished_in_gap", end_slack_seconds=900)
    decide_last_known(gap=observation(ticks=HALF))

    # It was decided on 60 scrapes; now there are none, and that is shown first.
    assert collect_down().state is WindowState.GAP
    decide_last_known()
    assert collect_down().state is WindowState.RECONCILED

    assert [(row[0], row[6]) for row in usage()] == [("a", 615), ("b", 615)]


# ---------------------------------------------------------------- by the settings


@pytest.mark.parametrize(
    ("gap_policy", "state"),
    [
        (None, WindowState.GAP),
        (GapPolicy.ACCEPT, WindowState.OPEN),
        (GapPolicy.WAIVE, WindowState.RECONCILED),
        (GapPolicy.LAST_KNOWN, WindowState.OPEN),
        (GapPolicy.HOLD, WindowState.OPEN),
    ],
)
def test_a_gap_is_decided_by_the_settings_or_waits(
    gap_policy: GapPolicy | None, state: WindowState
) -> None:
    policy = MeteringPolicy(gap_policy=gap_policy)

    collected = attempt(hole(), at=DUE + timedelta(days=2), policy=policy)

    assert collected.state is state
    assert window().state == state.value
    assert window().gap_policy == (gap_policy.value if gap_policy else "")


def test_what_the_settings_decided_in_vain_waits_for_a_person() -> None:
    policy = MeteringPolicy(gap_policy=GapPolicy.ACCEPT)
    blind = observation(pod("a"), ticks=BLIND_AT_END)
    late = DUE + timedelta(days=2)

    states = [attempt(blind, at=late, policy=policy).state for _ in range(2)]

    assert states == [WindowState.OPEN, WindowState.GAP]

"""Many pods of an hour that a person decides on are read part by part, with the same result."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from django.db import transaction
from msgspec import structs

from metering.domain.collection.parts import WHOLE, Part
from metering.domain.collection.windows import DEFAULT_POLICY, GapPolicy, MeteringPolicy
from metering.models import MeteringWindow, UsageRecord, WindowDivision
from metering.protocols import Observation, UsageSource
from metering.services.collection.division import writing
from metering.services.collection.division.reading import observe_pods
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.observing import HourObservation
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.collection.windows import hour_of
from tenants.models import Cluster, Project
from tests.metering.services.collection.test_division import hours
from tests.metering.services.collection.test_watched_parts import (
    agreeing,
    claiming,
    crowded,
    differing,
    unsized,
)
from tests.support.metering.allocations.watched import offered, watched
from tests.support.metering.collecting import seal_empty_hours
from tests.support.metering.deciding import LATE
from tests.support.metering.ledger import Rows, everything
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    ReplayedSource,
    moment,
    observation,
    pod,
    ticks,
)
from tests.support.shared_rows import shared_rows

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project", "empty_hours")]

DECISIONS = (GapPolicy.ACCEPT, GapPolicy.LAST_KNOWN, GapPolicy.HOLD)
IN_PARTS = replace(DEFAULT_POLICY, pods_undivided_max=0, part_pods=4)


@shared_rows
def empty_hours(cluster: Cluster) -> None:
    """Seal most hours between HOUR and LATE: to meter them takes nearly all of a test's time."""
    seal_empty_hours(cluster, until=LATE)


def half_seen(seed: int) -> Observation:
    """Return an hour of pods of every kind, half of which was not observed."""
    seen = hours(seed)[0]
    return replace(seen, ticks=ticks(begin=1800))


def worker_of(seen: Observation, *, policy: MeteringPolicy) -> Worker:
    """Return a worker over a source that saw one hour."""
    source = ReplayedSource({seen.start_at: seen}, counted=len(seen.pods))
    return Worker(name="worker-1", source=source, actor=ACTOR, policy=policy)


def decided(seen: Observation, decision: GapPolicy, *, policy: MeteringPolicy) -> Rows:
    """Return what is left behind of an hour that became a gap and was decided on, undone."""
    with transaction.atomic():
        worker = worker_of(seen, policy=policy)
        become_gap(worker)
        decide(decision)
        meter_due(worker=worker, at=LATE)
        found = everything()
        assert not WindowDivision.objects.exists()
        transaction.set_rollback(True)
    return found


def become_gap(worker: Worker) -> None:
    """Try the one hour when waiting cannot help it any more."""
    MeteringWindow.objects.filter(start_at=HOUR).update(state="open", not_before=LATE)
    meter_due(worker=worker, at=LATE)
    assert window().state == "gap"


def decide(decision: GapPolicy) -> None:
    """Decide on the one hour, and let it be due."""
    decide_window(
        window_id=window().pk, decision=decision, note="As observed.", actor=ACTOR, at=LATE
    )
    MeteringWindow.objects.filter(start_at=HOUR).update(not_before=LATE)


def window() -> MeteringWindow:
    return MeteringWindow.objects.get(start_at=HOUR)


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decided_hour_has_the_same_rows_in_parts(decision: GapPolicy) -> None:
    seen = half_seen(1)

    whole = decided(seen, decision, policy=DEFAULT_POLICY)

    assert decided(seen, decision, policy=IN_PARTS) == whole
    assert whole["MeteringException"]
    assert bool(whole["UsageRecord"]) == (decision is not GapPolicy.HOLD)


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize(
    "case", [agreeing, claiming, crowded, differing, unsized], ids=lambda case: case.__name__
)
def test_a_decided_hour_of_two_sources_has_the_same_rows_in_parts(
    case: Callable[[Cluster], Observation], decision: GapPolicy, cluster: Cluster
) -> None:
    watched(cluster, until=900)
    offered(cluster)
    offered(cluster, "node-2")
    seen = replace(case(cluster), ticks=ticks(begin=1800))

    whole = decided(seen, decision, policy=DEFAULT_POLICY)

    assert decided(seen, decision, policy=IN_PARTS) == whole


def test_what_is_shown_of_a_gap_is_that_of_all_parts() -> None:
    seen = half_seen(2)
    shown = []
    for policy in (DEFAULT_POLICY, IN_PARTS):
        with transaction.atomic():
            become_gap(worker_of(seen, policy=policy))
            shown.append(window().shown)
            transaction.set_rollback(True)

    assert shown[0] == shown[1]
    assert shown[0]["pods"] > 4


def test_a_decision_on_more_than_is_known_now_is_returned_and_writes_nothing() -> None:
    seen = half_seen(1)
    worker = worker_of(seen, policy=IN_PARTS)
    become_gap(worker)
    decide(GapPolicy.ACCEPT)
    source = worker.source
    assert isinstance(source, ReplayedSource)
    source.seen[HOUR] = replace(
        seen, pods=tuple(structs.replace(one, namespace="stray") for one in seen.pods[:9])
    )

    meter_due(worker=worker, at=LATE)

    assert window().state == "gap"
    assert "could not be met" in window().last_error
    assert not UsageRecord.objects.exists()


def test_a_decided_hour_holds_the_pods_of_one_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch, project: Project
) -> None:
    seen = half_seen(1)
    worker = worker_of(seen, policy=IN_PARTS)
    become_gap(worker)
    decide(GapPolicy.ACCEPT)
    written: list[Part] = []
    write_pods = writing.write_pods

    def note(*values: object, part: Part = WHOLE, **others: object) -> None:
        written.append(part)
        write_pods(*values, part=part, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(writing, "write_pods", note)

    meter_due(worker=worker, at=LATE)

    assert window().state in {"sealed", "collected"}
    assert (len(written), WHOLE in written) == (17, False)
    assert UsageRecord.objects.filter(project=project).count() == window().record_count


def test_what_was_billed_in_a_hole_of_an_accepted_hour_counts_once() -> None:
    seen = observation(pod("a"), ticks=ticks(begin=1800))
    worker = worker_of(seen, policy=DEFAULT_POLICY)
    become_gap(worker)
    decide(GapPolicy.ACCEPT)

    meter_due(worker=worker, at=LATE)

    hour = window()
    assert hour.unobserved_seconds is not None
    assert hour.unobserved_seconds > 1700
    # The node offers eight GPUs, of which the pod held one.
    assert hour.hidden_unit_seconds_max == {"large": 7 * hour.unobserved_seconds}


def observed(source: UsageSource, cluster: Cluster, *, pods: int) -> HourObservation:
    """Return what is read of the hour, of which a source says that it has so many pods."""
    return observe_pods(
        hour=hour_of(cluster, start_at=HOUR, is_watched=cluster.is_watched),
        pods=pods,
        source=source,
        as_of=moment(3600 + LATER),
        actor=ACTOR,
        at=LATE,
        policy=IN_PARTS,
    )


class WholeSource:
    """A source that answers about whole hours only."""

    def __init__(self, source: ReplayedSource) -> None:
        self.observe = source.observe
        self.prefetch = source.prefetch
        self.memory = source.memory
        self.observe_devices = source.observe_devices


def test_pods_are_read_in_parts_where_they_are_many_and_the_source_can(cluster: Cluster) -> None:
    seen = hours(1)[0]
    source = ReplayedSource({HOUR: seen})

    few = observed(source, cluster, pods=0)
    whole = observed(WholeSource(source), cluster, pods=60)
    many = observed(source, cluster, pods=60)

    assert few == whole
    assert (few.parts, len(many.parts)) == ((), 17)
    assert [part.part for part in few.all_parts] == [WHOLE]
    assert few.of_part(few.all_parts[0]) is few
    assert many.observation is not None
    assert many.observation.pods == ()
    assert sorted(many.pod_uids) == sorted(few.pod_uids)
    assert (many.scrapes, many.coverage) == (few.scrapes, few.coverage)
    read = {one.uid: one for part in many.parts for one in part.read()}
    assert read == {one.uid: one for one in seen.pods}


def test_an_hour_whose_source_is_away_has_the_parts_of_its_ledger(cluster: Cluster) -> None:
    watched(cluster)
    cluster.refresh_from_db()
    source = ReplayedSource({}, down="timeout")

    found = observed(source, cluster, pods=60)

    assert found.failure is not None
    assert found.failure.reason == "timeout"
    assert len(found.parts) == 17
    assert found.of_part(found.parts[0]).observation is None
    assert found.pod_uids == []

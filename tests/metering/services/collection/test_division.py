"""A window metered in parts by any workers has the same rows as one metered in one go."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from msgspec import structs

from metering.domain.collection.crashpoints import CRASHPOINTS, install_listener, remove_listener
from metering.domain.collection.parts import Part
from metering.domain.collection.windows import DEFAULT_POLICY, GapPolicy
from metering.models import (
    MeteringException,
    MeteringWindow,
    UsageRecord,
    WindowDivision,
    WindowPart,
)
from metering.protocols import ClusterTarget, Observation, PodObservation
from metering.protocols.parts import Frame, PartObservation
from metering.selectors.locks import holds_part
from metering.services.collection.division.leasing import ClaimedPart, NoPart, lease_part
from metering.services.collection.hour_decisions import decide_window, decide_windows
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_due, meter_next
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.domain.errors import SourceUnavailableError
from tenants.models import SweepCrash
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.crashing import DEAD, exit_code_of
from tests.support.metering.ledger import Rows, everything
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    ReplayedSource,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    ticks,
)

PODS = 60
PART_STATEMENTS_MAX = 45
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
SECOND = HOUR + timedelta(hours=1)
DUE = moment(2 * 3600 + LATER)


def uid_of(random: Random) -> str:
    """Return a uid as Kubernetes makes it."""
    return str(UUID(int=random.getrandbits(128), version=4))


def is_leaving(uid: str) -> bool:
    """Whether a pod is gone after the first hour, without an end that was seen."""
    return uid[-1] in "01"


def pods_of(seed: int, pods: int = PODS) -> Iterator[PodObservation]:
    """Yield pods of every kind: ended, unbound, unsized, contradicting, and with odd uids."""
    random = Random(seed)  # noqa: S311 - No secret.
    for number in range(pods):
        uid = uid_of(random) if number % 12 else f"Z-{number}"
        where: dict[str, Any] = {
            "node": f"node-{random.randrange(4)}",
            "units": random.randrange(1, 3),
        }
        kind = random.randrange(8)
        if is_leaving(uid):
            # Last seen in the first hour: gone by the second.
            yield pod(uid, last_seen_at=moment(3007), **where)
        elif kind == 0:
            begin = random.randrange(1800)
            yield ended_pod(uid, begin, begin + random.randrange(1, 1700), **where)
        elif kind == 1:
            yield pod(uid, namespace="stray", **where)
        elif kind == 2:
            yield pod(uid, labels={}, **where)
        elif kind == 3:
            yield pod(uid, defects=("Its request cannot be.",), **where)
        else:
            yield pod(uid, **where)


def hours(seed: int, pods: int = PODS) -> tuple[Observation, Observation]:
    """Return two hours; in the second, fewer pods are left and a hole hides some of it."""
    seen = tuple(sorted(pods_of(seed, pods), key=lambda one: one.uid))
    nodes = tuple(node(f"node-{number}") for number in range(4))
    holed = tuple(at for at in ticks(start_at=SECOND) if not 600 <= (at - SECOND).seconds <= 720)
    return (
        observation(*seen, nodes=nodes),
        observation(
            *(
                structs.replace(one, last_seen_at=moment(3600 + LATER - 23, start_at=SECOND))
                for one in seen
                if one.finished_at is None and not is_leaving(one.uid)
            ),
            nodes=nodes,
            start_at=SECOND,
            end_at=SECOND + timedelta(hours=1),
            ticks=holed,
        ),
    )


def set_the_stage() -> None:
    """Make a cluster, a project and a binding whose keys are the same in every run."""
    cluster = make_cluster(id=UUID(int=1), metered_from=HOUR)
    project = make_project(make_organization(id=UUID(int=2)), id=UUID(int=3))
    bind(cluster, "team-nlp", project)


def worker_of(parts: int, *, seed: int = 1, name: str = "worker-1", pods: int = PODS) -> Worker:
    """Return a worker that divides each window into so many parts; 1 divides none."""
    policy = DEFAULT_POLICY
    if parts > 1:
        policy = replace(policy, pods_undivided_max=0, part_pods=-(-pods // parts))
    seen = {one.start_at: one for one in hours(seed, pods)}
    source = ReplayedSource(seen, counted=pods)
    return Worker(name=name, source=source, actor=ACTOR, policy=policy)


def metered(parts: int, *, seed: int = 1) -> Rows:
    """Return what metering leaves behind, and take it back."""
    with transaction.atomic():
        set_the_stage()
        meter_due(worker=worker_of(parts, seed=seed), at=DUE)
        found = everything()
        assert not WindowDivision.objects.exists()
        transaction.set_rollback(True)
    return found


@pytest.mark.django_db
@pytest.mark.parametrize("parts", [2, 4, 16, 40])
@pytest.mark.parametrize("seed", [1, 2])
def test_any_division_gives_the_same_rows(parts: int, seed: int) -> None:
    undivided = metered(1, seed=seed)

    assert metered(parts, seed=seed) == undivided
    assert undivided["UsageRecord"]
    assert undivided["MeteringException"]


@pytest.mark.django_db
def test_parts_are_done_by_any_worker_and_the_window_is_finished_once() -> None:
    undivided = metered(1)
    set_the_stage()
    open_due_windows(at=DUE)
    workers = [worker_of(4, name=name) for name in ("one", "two", "three")]

    idle = 0
    while idle < len(workers):
        for one in workers:
            idle = idle + 1 if meter_next(worker=one, at=DUE) is None else 0

    assert everything() == undivided


@pytest.mark.django_db
def test_a_part_costs_a_constant_number_of_statements() -> None:
    counts = []
    for parts in (4, 16):
        with transaction.atomic():
            set_the_stage()
            with CaptureQueriesContext(connection) as captured:
                meter_due(worker=worker_of(parts), at=DUE)
            counts.append((len(captured), parts))
            transaction.set_rollback(True)

    (few, few_parts), (many, many_parts) = counts
    assert many - few <= 2 * (many_parts - few_parts) * PART_STATEMENTS_MAX


@pytest.mark.django_db
def test_parts_of_more_pods_cost_no_more_statements() -> None:
    counts = []
    for pods in (60, 600):
        with transaction.atomic():
            set_the_stage()
            with CaptureQueriesContext(connection) as captured:
                meter_due(worker=worker_of(4, pods=pods), at=DUE)
            counts.append(len(captured))
            transaction.set_rollback(True)

    assert counts[0] == counts[1]


POINTS = [name for name in CRASHPOINTS if name.startswith("part.")]


def meter_in_parts() -> None:
    """Meter both hours in four parts and the rest."""
    meter_due(worker=worker_of(4), at=DUE)


def let_leases_expire() -> None:
    """Let the leases of the dead run out, of windows and of parts."""
    MeteringWindow.objects.filter(state="collecting").update(lease_until=LONG_AGO)
    WindowPart.objects.filter(state="leased").update(lease_until=LONG_AGO)
    for division in WindowDivision.objects.all():
        windows = MeteringWindow.objects.filter(pk=division.pk)
        windows.update(not_before=division.not_before)


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_in_a_part_changes_nothing_in_the_end(point: str) -> None:
    expected = metered(1)
    set_the_stage()

    hit = 1 if "settle" in point or "finish" in point or "divide" in point else 3
    assert exit_code_of(meter_in_parts, point=point, hit=hit) == DEAD
    let_leases_expire()
    meter_in_parts()

    assert everything() == expected


@dataclass
class FailingSource(ReplayedSource):
    """A source that does not answer about one part for some times."""

    failing: str = ""
    times: int = 1

    def observe_part(
        self, target: ClusterTarget, *, frame: Frame, as_of: datetime, part: Part
    ) -> PartObservation:
        """Fail, or answer; see protocols.parts."""
        if part.text == self.failing and self.times:
            self.times -= 1
            raise SourceUnavailableError("Too many samples.", reason="too_many_samples")
        return super().observe_part(target, frame=frame, as_of=as_of, part=part)


@pytest.mark.django_db
def test_a_part_that_failed_is_tried_alone_after_the_windows_pause() -> None:
    undivided = metered(1)["UsageRecord"]
    set_the_stage()
    worker = worker_of(4)
    source = FailingSource(**vars(worker.source), failing="[4567]", times=1)
    worker = replace(worker, source=source)

    meter_due(worker=worker, at=DUE)

    states = dict(MeteringWindow.objects.values_list("start_at", "state"))
    assert states[HOUR] == "open"
    done = WindowPart.objects.filter(division__window__start_at=HOUR, state="done").count()
    finding = MeteringException.objects.get(window__start_at=HOUR, kind="source_unavailable")
    assert (done, finding.state) == (2, "open")

    meter_due(worker=worker, at=DUE + timedelta(minutes=5))

    assert everything()["UsageRecord"] == undivided
    finding.refresh_from_db()
    assert finding.state == "resolved"
    assert not WindowDivision.objects.exists()


@pytest.mark.django_db
def test_a_part_that_is_lost_again_and_again_quarantines_the_window() -> None:
    set_the_stage()
    open_due_windows(at=DUE)
    worker = worker_of(4)
    meter_next(worker=worker, at=DUE)

    rest = WindowPart.objects.filter(division__window__start_at=HOUR, pods__startswith="[")
    rest.update(state="done")

    for _ in range(DEFAULT_POLICY.attempts_max):
        (claimed,) = claim_windows(worker="mortal", limit=1, at=DUE)
        assert claimed.start_at == HOUR
        assert lease_part(claimed, worker="mortal", policy=DEFAULT_POLICY) is not NoPart.DONE
        let_leases_expire()
    claim_windows(worker="mortal", limit=1, at=DUE)

    assert MeteringWindow.objects.get(start_at=HOUR).state == "quarantined"
    finding = MeteringException.objects.get(window__start_at=HOUR, kind="quarantined")
    assert finding.details == {"claims": DEFAULT_POLICY.attempts_max}


@pytest.mark.django_db
def test_a_waived_hour_keeps_nothing_of_its_parts_and_refuses_the_late() -> None:
    set_the_stage()
    open_due_windows(at=DUE)
    worker = worker_of(4)
    while not UsageRecord.objects.exists():
        meter_next(worker=worker, at=DUE)
    (claimed,) = claim_windows(worker="late", limit=1, at=DUE)
    late = lease_part(claimed, worker="late", policy=DEFAULT_POLICY)
    assert isinstance(late, ClaimedPart)

    decide_window(
        window_id=claimed.id,
        decision=GapPolicy.WAIVE,
        note="Not metered.",
        actor=ACTOR,
        at=DUE,
        policy=replace(DEFAULT_POLICY, gap_patience_seconds=0),
    )

    assert not UsageRecord.objects.exists()
    assert not WindowDivision.objects.exists()
    with transaction.atomic():
        assert not holds_part(late.id, fence=late.fence)


@pytest.mark.django_db
@pytest.mark.parametrize("point", ["claim.after_commit", "part.lease.after_commit"])
def test_a_worker_whose_parts_a_decision_takes_back_leaves_the_window(point: str) -> None:
    set_the_stage()
    open_due_windows(at=DUE)
    worker = worker_of(4)
    while not UsageRecord.objects.exists():
        meter_next(worker=worker, at=DUE)

    def waive(reached: str) -> None:
        if reached == point:
            decide_windows(
                window_ids=list(WindowDivision.objects.values_list("pk", flat=True)),
                decision=GapPolicy.WAIVE,
                note="Not metered.",
                actor=ACTOR,
                at=DUE,
                policy=replace(DEFAULT_POLICY, gap_patience_seconds=0),
            )

    install_listener(waive)
    try:
        assert meter_next(worker=worker, at=DUE) == CollectionSweep()
    finally:
        remove_listener(waive)

    assert not UsageRecord.objects.exists()
    assert not SweepCrash.objects.exists()

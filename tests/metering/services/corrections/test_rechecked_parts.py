"""A recheck of an hour of many pods reads them part by part, and corrects what one go would."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from random import Random

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from msgspec import structs

from metering.domain.collection.parts import Part, parts_of
from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy
from metering.models import MeteringWindow, UsageCorrection, WindowRecheck
from metering.protocols import ClusterTarget, Observation, PodObservation
from metering.protocols.parts import Frame, PartObservation
from metering.selectors.corrections.ledger import ledger_of_window
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.corrections.rechecking import recheck_due
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tests.metering.services.collection.test_division import hours, pods_of
from tests.metering.services.collection.test_watched_parts import (
    agreeing,
    claiming,
    differing,
    holed,
    refused,
    unsized,
)
from tests.support.metering.allocations.watched import offered, watched
from tests.support.metering.collecting import DUE
from tests.support.metering.ledger import everything
from tests.support.metering.rechecking import FIRST, corrections
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    ReplayedSource,
    moment,
    node,
    observation,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project", "cluster")]

STATEMENTS_OF_A_PART_MAX = 10


def in_parts(part_pods: int) -> MeteringPolicy:
    """Return a policy by which every hour with a record is read in parts."""
    return replace(DEFAULT_POLICY, pods_undivided_max=0, part_pods=part_pods)


def roomy(seen: Observation) -> Observation:
    """Return an hour whose nodes have room for all that is used, so that it is sealed."""
    nodes = tuple(node(f"node-{number}", {"nvidia_com_gpu": 99}) for number in range(5))
    return replace(seen, nodes=nodes)


def later_truth(seed: int) -> Observation:
    """Return the first hour as it is known later: other ends, pods that are new, and some gone."""
    random = Random(seed)  # noqa: S311 - No secret.
    seen = roomy(hours(seed)[0])
    known = [changed(one, random) for one in seen.pods if random.randrange(10)]
    late = [one for one in pods_of(seed + 100, 12) if not one.uid.startswith("Z-")]
    return replace(seen, pods=tuple(sorted((*known, *late), key=lambda one: one.uid)))


def changed(one: PodObservation, random: Random) -> PodObservation:
    """Return a pod; one in three of those that have ended with another end."""
    if one.finished_at is None or random.randrange(3):
        return one
    end = random.randrange(1900, 3500)
    return structs.replace(one, finished_at=moment(end), terminal_seen_at=moment(end + 5))


def sealed_by(seen: Observation) -> Worker:
    """Seal the hour, read in one go."""
    source = ReplayedSource({HOUR: seen})
    metering = Worker(name="worker-1", source=source, actor=ACTOR, policy=DEFAULT_POLICY)
    meter_due(worker=metering, at=DUE)
    assert MeteringWindow.objects.get(start_at=HOUR).state == "sealed"
    return metering


def learn(metering: Worker, later: Observation) -> None:
    """Let a worker's source tell something else of the hour from now on."""
    assert isinstance(metering.source, ReplayedSource)
    metering.source.seen[HOUR] = later


def rechecked(metering: Worker, *, policy: MeteringPolicy) -> list[str]:
    """Return all rows as they are after a recheck, and take it back."""
    with transaction.atomic():
        recheck_due(worker=replace(metering, policy=policy), at=FIRST)
        digests = dict(UsageCorrection.objects.values_list("pk", "digest"))
        rows = [repr(row) for _, found in sorted(everything().items()) for row in found]
        rows += map(repr, UsageCorrection.objects.values_list("pk", "cause", "state", "reason"))
        rows += map(repr, WindowRecheck.objects.values_list("state", "outcome"))
        transaction.set_rollback(True)
    # Keys of corrections are random; of equal ones the digest is the same.
    for key, digest in digests.items():
        rows = [row.replace(str(key), digest) for row in rows]
    return sorted(rows)


@pytest.mark.parametrize("part_pods", [1, 20])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_recheck_in_parts_corrects_the_same(seed: int, part_pods: int) -> None:
    metering = sealed_by(roomy(hours(seed)[0]))
    learn(metering, later_truth(seed))

    whole = rechecked(metering, policy=DEFAULT_POLICY)

    assert rechecked(metering, policy=in_parts(part_pods)) == whole
    assert any("late_data" in row for row in whole)


@pytest.mark.parametrize(
    "case",
    [agreeing, claiming, differing, holed, refused, unsized],
    ids=lambda case: case.__name__,
)
def test_a_recheck_of_two_sources_in_parts_corrects_the_same(
    case: Callable[[Cluster], Observation], cluster: Cluster
) -> None:
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster, until=10 * 3600)
    offered(cluster)
    offered(cluster, "node-2")
    seen = case(cluster)
    metering = sealed_by(replace(observation(nodes=seen.nodes), ticks=seen.ticks))
    learn(metering, seen)

    whole = rechecked(metering, policy=DEFAULT_POLICY)

    assert rechecked(metering, policy=in_parts(1)) == whole


def test_the_ledger_of_parts_is_that_of_the_window(cluster: Cluster) -> None:
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster, until=10 * 3600)
    offered(cluster)
    offered(cluster, "node-2")
    sealed_by(claiming(cluster))
    window = MeteringWindow.objects.get()

    whole = ledger_of_window(window.pk, start_at=HOUR)
    parts = [ledger_of_window(window.pk, start_at=HOUR, part=part) for part in parts_of(16)]

    assert {key: fact for part in parts for key, fact in part.items()} == whole
    assert sum(map(len, parts)) == len(whole) == 5
    # What pods of other parts used of a claim is with the claim.
    assert sorted(uid for uid, _ in parts[0]) == ["0-user", "7-user", "f-user"]


def test_a_part_of_a_recheck_costs_a_constant_number_of_statements() -> None:
    metering = sealed_by(roomy(hours(1)[0]))
    learn(metering, later_truth(1))
    counts = []
    for part_pods in (30, 4):
        with transaction.atomic():
            with CaptureQueriesContext(connection) as captured:
                recheck_due(worker=replace(metering, policy=in_parts(part_pods)), at=FIRST)
            counts.append(len(captured))
            transaction.set_rollback(True)

    few, many = counts
    assert 0 < many - few <= (17 - 3) * STATEMENTS_OF_A_PART_MAX


class FailingSource(ReplayedSource):
    """A source that does not answer about one part."""

    def observe_part(
        self, target: ClusterTarget, *, frame: Frame, as_of: datetime, part: Part
    ) -> PartObservation:
        """Fail, or answer; see protocols.parts."""
        if part.text == "[89ab]":
            raise SourceUnavailableError("Too many samples.", reason="too_many_samples")
        return super().observe_part(target, frame=frame, as_of=as_of, part=part)


def test_a_recheck_that_cannot_read_a_part_is_postponed_and_corrects_nothing() -> None:
    metering = sealed_by(roomy(hours(1)[0]))
    learn(metering, later_truth(1))
    assert isinstance(metering.source, ReplayedSource)
    failing = replace(metering, source=FailingSource(**vars(metering.source)))

    swept = recheck_due(worker=replace(failing, policy=in_parts(20)), at=FIRST)

    assert (swept.postponed, swept.done, corrections()) == (1, 0, [])
    assert WindowRecheck.objects.get().last_error == "Too many samples."


def test_a_recheck_of_an_hour_of_few_pods_reads_it_in_one_go() -> None:
    metering = sealed_by(roomy(hours(1)[0]))
    assert isinstance(metering.source, ReplayedSource)
    failing = replace(metering, source=FailingSource(**vars(metering.source)))

    swept = recheck_due(worker=failing, at=FIRST)

    assert (swept.done, swept.postponed) == (1, 0)

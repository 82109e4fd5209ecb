"""Hours of a backlog read once what was settled for good, and are metered as each alone is."""

from collections.abc import Mapping, Sequence

import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext
from msgspec import structs

from metering.domain.allocations.timeline import EndKind
from metering.domain.collection.windows import WINDOW, MeteringPolicy
from metering.models import PodAllocation, UsageRecord
from metering.protocols import ClusterTarget, ObservedSpan, PodObservation, UsageSource
from metering.selectors.allocations.rows import (
    AllocationKey,
    LedgerRow,
    SettledFacts,
    ledger_rows,
)
from metering.services.collection.collecting import collect_window
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_next
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.models import Cluster, Project
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.watched import LARGE_H100, UNSIZED, ledgered, queued
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    ReplayedSource,
    SeenHour,
    moment,
    observation,
    pod,
    ticks,
)

pytestmark = pytest.mark.django_db

HOURS = 4
AT = moment(3600 + LATER) + (HOURS - 1) * WINDOW
FACTS_READ = "SELECT encode(uuid_send"
ENDS = ("pod_uid", "end_at", "end_kind", "end_slack_seconds", "last_seen_at")


class TogetherSource(ReplayedSource):
    """A source that observes hours together."""

    def prefetch(self, target: ClusterTarget, spans: Sequence[ObservedSpan]) -> UsageSource:
        """Return a source that has asked about all; see protocols.UsageSource."""
        del target, spans
        return TogetherSource(self.seen, asked=self.asked)


def running(uid: str, *, hour: int) -> PodObservation:
    """Return a pod that runs through an hour, and longer."""
    begin = hour * 3600
    return pod(uid, first_seen_at=moment(begin - 113), last_seen_at=moment(begin + 4447))


def hour_of(hour: int, *pods: PodObservation) -> SeenHour:
    start_at = HOUR + hour * WINDOW
    return observation(
        *pods, start_at=start_at, end_at=start_at + WINDOW, ticks=ticks(-3600, start_at=start_at)
    )


def backlog(*uids: str) -> TogetherSource:
    """Open four hours of a cluster in which some pods run all the time."""
    make_cluster(metered_from=HOUR)
    open_due_windows(at=AT)
    return TogetherSource(
        {
            HOUR + hour * WINDOW: hour_of(hour, *(running(uid, hour=hour) for uid in uids))
            for hour in range(HOURS)
        }
    )


def meter(source: ReplayedSource, *, hours_together_max: int = HOURS) -> CollectionSweep | None:
    policy = MeteringPolicy(hours_together_max=hours_together_max)
    return meter_next(worker=Worker("worker-1", source, ACTOR, policy), at=AT)


def records() -> list[tuple[object, ...]]:
    rows = UsageRecord.objects.order_by("window_start", "pod_uid")
    return list(
        rows.values_list("window_start", "pod_uid", "unit_seconds", "project__slug", "begin_at")
    )


def bound(project: Project, begin: int, end: int | None = None) -> None:
    """Bind the pods' namespace to a project for some hours."""
    cluster = Cluster.objects.get()
    end_at = None if end is None else HOUR + end * WINDOW
    bind(cluster, "team-nlp", project, begin_at=HOUR + begin * WINDOW, end_at=end_at)


def test_hours_together_are_metered_as_hours_alone() -> None:
    first, second = (make_project(make_organization(slug), slug) for slug in ("one", "two"))
    found = []
    for together in (1, HOURS):
        with transaction.atomic():
            source = backlog("a", "b")
            bound(first, 0, 2)
            bound(second, 2)
            while meter(source, hours_together_max=together):
                pass
            found.append((records(), sorted(PodAllocation.objects.values_list(*ENDS))))
            transaction.set_rollback(True)

    alone, together_found = found
    assert alone == together_found
    assert len(alone[0]) == 2 * HOURS
    assert {row[3] for row in alone[0]} == {"one", "two"}


def test_facts_are_looked_up_for_the_first_of_the_hours_only() -> None:
    source = backlog("a", "b")
    bound(make_project(make_organization()), 0)

    with CaptureQueriesContext(connection) as captured:
        assert meter(source) == CollectionSweep(sealed=HOURS)

    looked_up = [one for one in captured if one["sql"].lstrip().startswith(FACTS_READ)]
    # Once to see that they are new, once to read their ids.
    assert len(looked_up) == 2
    assert UsageRecord.objects.values("fact_id").distinct().count() == 2


def test_another_project_is_another_fact() -> None:
    source = backlog("a")
    owner = make_organization()
    bound(make_project(owner, "before"), 0, 2)
    bound(make_project(owner, "after"), 2)

    meter(source)

    assert [row[3] for row in records()] == ["before", "before", "after", "after"]
    assert UsageRecord.objects.values("fact_id").distinct().count() == 1


def test_an_owner_that_changes_later_is_no_other_fact() -> None:
    source = backlog("a")
    for hour in (2, 3):
        pods = [structs.replace(running("a", hour=hour), owner="bob")]
        source.seen[HOUR + hour * WINDOW] = hour_of(hour, *pods)
    bound(make_project(make_organization()), 0)

    meter(source)

    owners = UsageRecord.objects.order_by("window_start").values_list("owner", flat=True)
    assert list(owners) == ["", "", "", ""]


def test_a_default_owner_that_changes_is_another_fact() -> None:
    source = backlog("a")
    cluster, project = Cluster.objects.get(), make_project(make_organization())
    bind(cluster, "team-nlp", project, begin_at=HOUR, end_at=HOUR + WINDOW)
    bind(
        cluster,
        "team-nlp",
        project,
        begin_at=HOUR + WINDOW,
        default_owner=User.objects.create(username="carol"),
    )

    meter(source)

    owners = UsageRecord.objects.order_by("window_start").values_list("owner", flat=True)
    assert list(owners) == ["", "carol", "carol", "carol"]


def test_what_failed_is_not_kept() -> None:
    settled = SettledFacts(is_shared=True)
    ledgered(make_cluster(), "a")

    with pytest.raises(DatabaseError):
        read_and_fail(settled)

    assert settled.rows == {}
    with settled.kept_after():
        pass
    assert settled.rows == {}


def read_and_fail(settled: SettledFacts) -> None:
    with settled.kept_after(), transaction.atomic():
        assert len(read(settled)) == 1
        PodAllocation.objects.update(node="another")


def read(settled: SettledFacts | None = None) -> Mapping[AllocationKey, LedgerRow]:
    return ledger_rows(
        Cluster.objects.get().pk,
        start_at=HOUR,
        end_at=HOUR + WINDOW,
        pod_uids=["asked"],
        settled=settled,
    )


def test_rows_are_read_again_as_they_stand_now() -> None:
    cluster = make_cluster()
    for uid, fields in {
        "open": {},
        "vanished": {},
        "bound": {"source": "prometheus"},
        "unsized": UNSIZED,
    }.items():
        ledgered(cluster, uid, **fields)
    ledgered(cluster, "asked", -900, -600)
    settled = SettledFacts(is_shared=True)
    with settled.kept_after():
        read(settled)
    PodAllocation.objects.filter(pod_uid="vanished").update(
        end_at=moment(60), end_kind=EndKind.VANISHED.value, end_slack_seconds=15
    )
    PodAllocation.objects.filter(pod_uid="unsized").update(**LARGE_H100)
    queued(cluster, "bound")
    ledgered(cluster, "new")

    again = read(settled)

    assert again == read()
    assert sorted(row.fact.pod_uid for row in settled.rows.values()) == [
        "asked",
        "bound",
        "open",
        "vanished",
    ]
    assert again["bound", "nvidia_com_gpu"].is_from_api
    assert again["vanished", "nvidia_com_gpu"].life.slack_seconds == 15
    assert again["unsized", "nvidia_com_gpu"].fact.size == "large"


def test_an_hour_alone_keeps_nothing() -> None:
    source = backlog("a")
    bound(make_project(make_organization()), 0)
    [claimed] = claim_windows(worker="w", limit=1, at=AT)

    collect_window(claimed=claimed, source=source, actor=ACTOR, at=AT)
    read(claimed.hour.settled)

    assert len(records()) == 1
    assert (claimed.hour.settled.rows, claimed.hour.settled.facts) == ({}, {})
    assert claimed.hour.settled == SettledFacts()


def test_each_cluster_has_facts_of_its_own() -> None:
    for slug in ("one", "two"):
        make_cluster(slug, metered_from=HOUR)
    open_due_windows(at=AT)

    claimed = claim_windows(worker="w", limit=2, alone=(), at=AT)

    facts = {(one.cluster_id, id(one.hour.settled)) for one in claimed}
    assert len(claimed) == 2 * HOURS
    assert len(facts) == 2

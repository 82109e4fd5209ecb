"""What sources tell late of a sealed hour is added as signed records; what they forget is not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import (
    CapacityRecord,
    MeteringException,
    MeteringWindow,
    PodAllocation,
    UsageCorrection,
    UsageRecord,
    WindowRecheck,
)
from metering.protocols import Observation
from metering.services.corrections.rechecking import RecheckSweep
from tenants.models import AuditEntry, Project
from tenants.selectors.clock import crashes_by_event
from tests.support.metering.rechecking import (
    FIRST,
    SECOND,
    THIRD,
    blind,
    corrections,
    learn,
    recheck,
    revisions,
    seal_hour,
    sums,
)
from tests.support.metering.seen import (
    HOUR,
    ReplayedSource,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    source_down,
    ticks,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


@pytest.mark.parametrize("reason", ["credentials_forbidden", "forbidden_address"])
def test_what_is_refused_at_a_recheck_is_audited(reason: str) -> None:
    metering = seal_hour(pod("a"))

    with source_down(metering, reason):
        recheck(metering)
        recheck(metering)

    (entry,) = AuditEntry.objects.filter(action="tenants:cluster:refuse")
    assert entry.facts["code"] == reason


def test_a_pod_that_is_reported_late_is_added_at_the_next_recheck(project: Project) -> None:
    metering = seal_hour(pod("a"))
    window = MeteringWindow.objects.get()
    learn(metering, pod("a"), ended_pod("late", 600, 1800, owner="carol"))

    swept = recheck(metering)

    assert swept == RecheckSweep(made=1, done=1, corrections=1)
    assert revisions() == [("a", 0, 3600), ("late", 1, 1200)]
    record = UsageRecord.objects.get(pod_uid="late")
    assert (record.project, record.owner, record.size) == (project, "carol", "large")
    assert (record.begin_at, record.end_at, record.seconds) == (moment(600), moment(1800), 1200)
    correction = UsageCorrection.objects.get()
    assert record.correction == correction
    assert (correction.cause, correction.state, correction.unit_seconds) == (
        "late_data",
        "posted",
        1200,
    )
    assert (correction.window, correction.project, correction.record_count) == (window, project, 1)
    assert correction.reason == (
        "The sources tell more of the hour than when it was sealed."
        " It was looked at again at a set time after it."
    )
    assert correction.evidence[0]["query"] == "up"
    assert PodAllocation.objects.get(pod_uid="late").begin_at == moment(600)


def test_the_recheck_and_the_audit_trail_tell_what_was_corrected() -> None:
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), ended_pod("late", 600, 1800))

    recheck(metering)

    done = WindowRecheck.objects.get()
    assert (done.state, done.reason, done.key, done.after_seconds) == (
        "done",
        "scheduled",
        "3600",
        3600,
    )
    assert (done.queried_at, done.finished_at, done.lease_owner) == (FIRST, FIRST, "")
    assert done.outcome == {
        "corrections": 1,
        "posted_unit_seconds": 1200,
        "proposed_unit_seconds": 0,
        "unproven_unit_seconds": 0,
        "unseen": 0,
    }
    entry = AuditEntry.objects.get(action="metering:window:recheck")
    correction = UsageCorrection.objects.get()
    [reported] = entry.facts["corrections"]
    assert (reported["correction"], reported["digest"]) == (str(correction.pk), correction.digest)
    assert (reported["unit_seconds"], reported["state"]) == (1200, "posted")
    assert entry.object_id == str(correction.window_id)


def test_the_seal_and_its_digest_stay_as_they_were() -> None:
    metering = seal_hour(pod("a"))
    before = MeteringWindow.objects.values().get()
    learn(metering, pod("a"), pod("late"))

    recheck(metering)

    assert MeteringWindow.objects.values().get() == before


def test_a_pod_that_lasted_longer_than_billed_gets_the_rest() -> None:
    metering = seal_hour(ended_pod("a", 0, 600))
    learn(metering, ended_pod("a", 0, 1500))

    recheck(metering)

    assert revisions() == [("a", 0, 600), ("a", 1, 900)]
    newest = UsageRecord.objects.get(revision=1)
    assert (newest.seconds, newest.end_at) == (1500, moment(1500))


def test_every_recheck_adds_only_what_is_new() -> None:
    metering = seal_hour(ended_pod("a", 0, 600))
    for at, end in ((FIRST, 900), (SECOND, 900), (THIRD, 1000)):
        learn(metering, ended_pod("a", 0, end))
        recheck(metering, at)

    assert revisions() == [("a", 0, 600), ("a", 1, 300), ("a", 2, 100)]
    assert list(WindowRecheck.objects.order_by("pk").values_list("key", "state")) == [
        ("3600", "done"),
        ("21600", "done"),
        ("86400", "done"),
    ]


def test_a_pod_or_all_of_them_disappearing_takes_nothing_away() -> None:
    metering = seal_hour(pod("a"), pod("b"))
    learn(metering, pod("a"))
    recheck(metering)
    learn(metering)
    recheck(metering, SECOND)

    assert sums() == {"a": 3600, "b": 3600}
    assert corrections() == []
    # Both were shown after the hour, so they are known to have lasted through it.
    found = [done.outcome["unseen"] for done in WindowRecheck.objects.order_by("pk")]
    assert found == [0, 0]


def test_less_of_a_pod_without_a_proof_takes_nothing_away() -> None:
    metering = seal_hour(ended_pod("a", 0, 1500))
    learn(metering, ended_pod("a", 0, 600))

    recheck(metering)

    assert sums() == {"a": 1500}
    assert corrections() == []
    assert WindowRecheck.objects.get().outcome["unproven_unit_seconds"] == 900


def test_a_source_that_lost_the_hour_is_asked_again_later() -> None:
    metering = seal_hour(pod("a"))
    source = metering.source
    assert isinstance(source, ReplayedSource)
    source.seen[MeteringWindow.objects.get().start_at] = blind(pod("a"), pod("b"))

    assert recheck(metering) == RecheckSweep(made=1, postponed=1)

    waiting = WindowRecheck.objects.get()
    assert (waiting.state, waiting.failures, waiting.last_error) == (
        "due",
        1,
        "Too little of the hour was seen.",
    )
    assert waiting.not_before > FIRST
    assert sums() == {"a": 3600}
    learn(metering, pod("a"), pod("b"))
    assert recheck(metering, SECOND).corrections == 1
    assert sums() == {"a": 3600, "b": 3600}


def test_a_source_that_does_not_answer_is_asked_again_later() -> None:
    metering = seal_hour(pod("a"))

    with source_down(metering):
        assert recheck(metering) == RecheckSweep(made=1, postponed=1)

    assert WindowRecheck.objects.get().last_error == "Prometheus did not answer."
    assert sums() == {"a": 3600}


@pytest.mark.parametrize(
    ("longest", "remembers", "left"),
    [
        (timedelta(days=15), None, observation(pod("a"), pod("late"))),
        (timedelta(days=365), timedelta(days=15), observation(pod("a"), pod("late"))),
        (timedelta(days=365), None, observation(ticks=())),
    ],
    ids=["by policy", "older than the retention", "nothing is left"],
)
def test_a_recheck_that_comes_too_late_for_the_sources_lapses(
    longest: timedelta, remembers: timedelta | None, left: Observation
) -> None:
    metering = seal_hour(pod("a"))
    with source_down(metering):
        recheck(metering)
    source = metering.source
    assert isinstance(source, ReplayedSource)
    source.remembers = remembers
    source.seen[HOUR] = left

    policy = replace(DEFAULT_POLICY, recheck_retention_seconds=int(longest.total_seconds()))
    swept = recheck(metering, moment(16 * 86_400), policy=policy)

    assert swept == RecheckSweep(done=1)
    lapsed = WindowRecheck.objects.get()
    assert (lapsed.state, lapsed.last_error) == (
        "lapsed",
        "The sources no longer tell of the hour.",
    )
    assert sums() == {"a": 3600}


@pytest.mark.parametrize("remembers", [None, timedelta(days=90)])
def test_an_hour_is_looked_at_again_as_far_back_as_its_source_remembers(
    remembers: timedelta | None,
) -> None:
    metering = seal_hour(pod("a"))
    with source_down(metering):
        recheck(metering)
    learn(metering, pod("a"), pod("late"))
    source = metering.source
    assert isinstance(source, ReplayedSource)
    source.remembers = remembers

    swept = recheck(metering, moment(60 * 86_400))

    assert swept.corrections == 1
    assert sums() == {"a": 3600, "late": 3600}


def test_where_the_site_says_so_late_usage_waits_for_a_person() -> None:
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), pod("late"))

    recheck(metering, policy=replace(DEFAULT_POLICY, posts_late_usage=False))

    assert corrections() == [("late_data", "proposed", 1, 3600)]
    assert sums() == {"a": 3600}


def test_what_waits_for_a_person_is_not_proposed_twice() -> None:
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), pod("late"))
    strict = replace(DEFAULT_POLICY, posts_late_usage=False)

    recheck(metering, policy=strict)
    recheck(metering, SECOND, policy=strict)

    assert corrections() == [("late_data", "proposed", 1, 3600)]


def test_more_than_a_node_offers_waits_for_a_person() -> None:
    metering = seal_hour(pod("a", units=6), nodes=(node(),))
    learn(metering, pod("a", units=6), pod("late", units=6), nodes=(node(),))

    recheck(metering)

    assert corrections() == [("late_data", "proposed", 1, 21_600)]
    assert sums() == {"a": 21_600}
    [found] = MeteringException.objects.all()
    assert (found.kind, found.state) == ("over_capacity", "open")


def test_late_usage_of_two_projects_is_two_corrections_of_one_recheck() -> None:
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), pod("b"), pod("c", namespace="stray"))

    recheck(metering)

    assert corrections() == [("late_data", "posted", 1, 3600)]
    held = MeteringException.objects.get()
    assert (held.kind, held.state, held.held_unit_seconds) == ("unbound_namespace", "open", 3600)


def test_capacity_follows_what_was_added() -> None:
    metering = seal_hour(pod("a"))
    learn(metering, pod("a"), ended_pod("late", 600, 1800))

    recheck(metering)

    balance = CapacityRecord.objects.values_list(
        "capacity_unit_seconds", "billed_unit_seconds", "held_unit_seconds", "idle_unit_seconds"
    )
    assert balance.get() == (28_800, 4_800, 0, 24_000)


def test_use_on_a_node_that_was_never_seen_raises_its_capacity() -> None:
    metering = seal_hour(nodes=())
    assert not CapacityRecord.objects.exists()
    learn(metering, pod("late"), nodes=())

    recheck(metering)

    capacity = CapacityRecord.objects.get()
    assert (capacity.node, capacity.capacity_unit_seconds, capacity.billed_unit_seconds) == (
        "node-1",
        3600,
        3600,
    )


def test_a_window_collected_late_is_not_rechecked_for_times_it_has_seen() -> None:
    metering = seal_hour(pod("a"))
    assert recheck(metering, moment(3600 + 3599)) == RecheckSweep()

    assert recheck(metering, SECOND).made == 1

    assert list(WindowRecheck.objects.values_list("key", flat=True)) == ["21600"]
    assert recheck(metering, SECOND) == RecheckSweep()


def test_a_waived_hour_is_never_looked_at_again() -> None:
    metering = seal_hour(pod("a"))
    MeteringWindow.objects.create(
        cluster=MeteringWindow.objects.get().cluster,
        start_at=moment(-3600),
        state="sealed",
        gap_policy="waive",
        not_before=moment(0),
        as_of=moment(0),
        collected_at=moment(0),
        sealed_at=moment(0),
    )

    assert recheck(metering, THIRD).made == 1


def test_an_answer_about_another_hour_fails_that_recheck_alone() -> None:
    metering = seal_hour(pod("a"))
    source = metering.source
    assert isinstance(source, ReplayedSource)
    start = MeteringWindow.objects.get().start_at
    wrong = observation(start_at=moment(3600), end_at=moment(7200), ticks=ticks())
    source.seen[start] = wrong

    assert recheck(metering) == RecheckSweep(made=1, failed=1)
    assert crashes_by_event() == {"metering.recheck.failed": 1}

    assert WindowRecheck.objects.get().state == "checking"
    assert sums() == {"a": 3600}

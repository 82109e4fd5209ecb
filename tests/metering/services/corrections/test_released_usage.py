"""What exceptions held when an hour was sealed is billed once it is no longer so."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.collection.reconciliation import Side
from metering.domain.corrections.correction import RecheckReason
from metering.domain.errors import (
    WindowNotFoundError,
    WindowNotSealedError,
    WindowTooOldError,
    WindowWaivedError,
)
from metering.models import (
    CapacityRecord,
    CatalogueVersion,
    MeteringException,
    MeteringWindow,
    UsageCorrection,
    UsageRecord,
    WindowRecheck,
)
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sweeping import meter_due
from metering.services.corrections.exceptions import accept_side, resolve_exception
from metering.services.corrections.rechecking import RecheckSweep, recheck_next
from metering.services.corrections.rechecks import ask_recheck, make_due_rechecks
from metering.services.corrections.review import approve_correction
from tenants.domain.actors import Actor, ActorKind
from tenants.models import AuditEntry, Cluster, Project
from tests.support.builders import bind, make_project
from tests.support.metering.allocations.watched import ledgered, offered, watched
from tests.support.metering.rechecking import (
    FIRST,
    SEALED_AT,
    SECOND,
    corrections,
    learn,
    recheck,
    revisions,
    seal_hour,
    sums,
)
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    ended_pod,
    moment,
    node,
    observation,
    pod,
    worker,
)

pytestmark = pytest.mark.django_db

SOON = SEALED_AT + timedelta(minutes=5)
FRANK = Actor(kind=ActorKind.PERSON, id="7", label="frank")


def balance() -> tuple[int, int, int, int]:
    return CapacityRecord.objects.values_list(
        "capacity_unit_seconds", "billed_unit_seconds", "held_unit_seconds", "idle_unit_seconds"
    ).get()


def test_binding_a_namespace_from_an_earlier_hour_releases_what_was_held(
    cluster: Cluster, project: Project
) -> None:
    metering = seal_hour(pod("a"), pod("stray", namespace="stray", units=2))
    assert balance() == (28_800, 3_600, 7_200, 18_000)
    other = make_project(project.organization, "vision")

    bind(cluster, "stray", other, begin_at=HOUR - timedelta(hours=3))
    swept = recheck(metering, SOON)

    assert swept == RecheckSweep(made=1, done=1, corrections=1)
    assert WindowRecheck.objects.get().reason == "binding"
    assert revisions() == [("a", 0, 3600), ("stray", 1, 7200)]
    correction = UsageCorrection.objects.get()
    assert (correction.cause, correction.state, correction.project) == (
        "released",
        "posted",
        other,
    )
    assert correction.reason == (
        "What exceptions held when the hour was sealed is no longer in doubt."
        " It was looked at again because a namespace was bound."
    )
    held = MeteringException.objects.get()
    assert (held.state, held.resolved_at) == ("resolved", SOON)
    assert held.resolution == f"Billed by usage correction {correction.pk}."
    assert balance() == (28_800, 10_800, 0, 18_000)


def test_a_binding_asks_once_and_only_for_sealed_hours_that_hold_something(
    cluster: Cluster, project: Project
) -> None:
    metering = seal_hour(pod("stray", namespace="stray"))
    other_hour = MeteringWindow.objects.create(
        cluster=cluster, start_at=HOUR - timedelta(hours=1), not_before=HOUR
    )
    MeteringException.objects.create(
        cluster=cluster,
        window=other_hour,
        window_start=other_hour.start_at,
        kind="unbound_namespace",
        subject="x",
        namespace="stray",
        summary="",
        remedy="",
        created_at=HOUR,
    )
    bind(cluster, "elsewhere", project)
    assert make_due_rechecks(at=SOON) == 0

    bind(cluster, "stray", project)

    assert make_due_rechecks(at=SOON) == 1
    assert make_due_rechecks(at=SOON) == 0
    assert recheck(metering, SOON).corrections == 1


def test_what_a_person_left_unbilled_stays_so(cluster: Cluster, project: Project) -> None:
    seal_hour(pod("stray", namespace="stray"))
    resolve_exception(
        exception_id=MeteringException.objects.get().pk, note="A test.", actor=ACTOR, at=SOON
    )

    bind(cluster, "stray", project)

    assert make_due_rechecks(at=SOON) == 0


@pytest.mark.usefixtures("project")
def test_a_new_catalogue_asks_for_hours_with_unknown_devices() -> None:
    seal_hour(pod("new", labels={}))
    assert MeteringException.objects.get().kind == "unknown_node"
    version = ensure_catalogue(actor=ACTOR, at=HOUR).version
    assert make_due_rechecks(at=SOON) == 0

    last = CatalogueVersion.objects.get(version=version)
    CatalogueVersion.objects.create(
        version=version + 1, rules=last.rules, digest="0" * 64, created_at=SOON
    )

    assert make_due_rechecks(at=SOON) == 1
    asked = WindowRecheck.objects.get()
    assert (asked.reason, asked.key) == ("catalogue", str(version + 1))
    assert make_due_rechecks(at=SOON) == 0


@pytest.mark.usefixtures("project")
def test_a_device_that_is_known_by_now_is_released() -> None:
    metering = seal_hour(pod("new", labels={}))
    learn(metering, pod("new"))

    recheck(metering)

    assert corrections() == [("released", "posted", 1, 3600)]
    assert MeteringException.objects.get().state == "resolved"


@pytest.mark.usefixtures("project")
class TestAsking:
    def test_a_person_asks_for_a_look_now(self) -> None:
        metering = seal_hour(pod("a"))
        window = MeteringWindow.objects.get()
        learn(metering, pod("a"), pod("b"))

        asked = ask_recheck(
            window_id=window.pk,
            reason=RecheckReason.PERSON,
            note=" Remote write was late. ",
            actor=FRANK,
            at=SOON,
        )

        assert (asked.state, asked.note, asked.requested_by) == (
            "due",
            "Remote write was late.",
            "frank",
        )
        entry = AuditEntry.objects.get(action="metering:window:ask_recheck")
        assert (entry.object_id, entry.facts["reason"]) == (str(window.pk), "person")
        swept = recheck_next(worker=metering, at=SOON)
        assert swept == RecheckSweep(done=1, corrections=1)
        assert sums() == {"a": 3600, "b": 3600}
        assert recheck_next(worker=metering, at=SOON) is None

    def test_asked_twice_at_one_moment_is_asked_once(self) -> None:
        seal_hour(pod("a"))
        window = MeteringWindow.objects.get()

        first, second = (
            ask_recheck(window_id=window.pk, reason=RecheckReason.DECISION, actor=FRANK, at=SOON)
            for _ in range(2)
        )

        assert first == second
        assert AuditEntry.objects.filter(action="metering:window:ask_recheck").count() == 1

    def test_an_hour_that_is_not_sealed_is_metered_again_instead(self) -> None:
        window = MeteringWindow.objects.get()

        with pytest.raises(WindowNotSealedError) as refused:
            ask_recheck(window_id=window.pk, reason=RecheckReason.PERSON, actor=FRANK, at=SOON)

        assert refused.value.code == "metering_window_not_sealed"
        assert "Meter the window again" in refused.value.advice
        assert not WindowRecheck.objects.exists()

    def test_an_hour_that_was_waived_is_left_alone(self, cluster: Cluster) -> None:
        waived = MeteringWindow.objects.create(
            cluster=cluster,
            start_at=HOUR - timedelta(hours=1),
            state="sealed",
            gap_policy="waive",
            not_before=HOUR,
            as_of=HOUR,
            sealed_at=HOUR,
        )

        with pytest.raises(WindowWaivedError):
            ask_recheck(window_id=waived.pk, reason=RecheckReason.PERSON, actor=FRANK, at=SOON)

        assert not WindowRecheck.objects.exists()

    def test_an_hour_the_sources_forgot_is_not_asked_about(self) -> None:
        seal_hour(pod("a"))
        window = MeteringWindow.objects.get()

        with pytest.raises(WindowTooOldError):
            ask_recheck(
                window_id=window.pk,
                reason=RecheckReason.PERSON,
                actor=FRANK,
                at=HOUR + timedelta(days=365),
            )

        assert not WindowRecheck.objects.exists()

    def test_an_hour_that_does_not_exist_is_not_found(self) -> None:
        with pytest.raises(WindowNotFoundError):
            ask_recheck(window_id=0, reason=RecheckReason.PERSON, actor=FRANK, at=SOON)


class TestTheApisWord:
    """A cluster with a watch, whose API shows an end exactly after the hour was sealed."""

    @pytest.fixture(autouse=True)
    def _watched(self, cluster: Cluster, project: Project) -> None:
        del project
        ensure_catalogue(actor=ACTOR, at=HOUR)
        watched(cluster, until=100_000)
        offered(cluster)

    def seal(self, cluster: Cluster) -> int:
        """Seal the hour with a pod whose end nobody knew exactly; return what it is billed."""
        ledgered(cluster, "a", 0, 1470, end_kind="vanished_in_gap", end_slack_seconds=60)
        seen = pod("a", scheduled_at=HOUR, first_seen_at=moment(7), last_seen_at=moment(1477))
        meter_due(worker=worker(observation(seen)), at=SEALED_AT)
        record = UsageRecord.objects.get()
        assert record.end_kind != "exact"
        return record.unit_seconds

    def test_less_is_proposed_and_a_person_decides(self, cluster: Cluster) -> None:
        billed = self.seal(cluster)
        cluster.allocations.update(end_at=moment(1200), end_kind="exact", end_slack_seconds=0)
        metering = worker(observation(ended_pod("a", 0, 1200)))

        recheck(metering)

        assert corrections() == [("late_data", "proposed", 1, 1200 - billed)]
        assert sums() == {"a": billed}
        assert UsageCorrection.objects.get().reason.startswith("The cluster's API reported an")
        recheck(metering, SECOND)
        assert len(corrections()) == 1

    @pytest.mark.parametrize(("side", "delta"), [(Side.PROMETHEUS, -3600), (Side.KUBERNETES, 0)])
    def test_accepted_evidence_that_a_pod_held_nothing_is_proposed(
        self, cluster: Cluster, side: Side, delta: int
    ) -> None:
        ledgered(cluster, "ghost")
        metering = worker(observation())
        meter_due(worker=metering, at=SEALED_AT)
        found = MeteringException.objects.get()
        assert (found.kind, sums()) == ("kubernetes_only", {"ghost": 3600})

        accept_side(exception_id=found.pk, side=side, note="Seen.", actor=ACTOR, at=SOON)
        recheck(metering, SOON)

        assert [row[3] for row in corrections()] == ([delta] if delta else [])
        assert sums() == {"ghost": 3600}
        for proposed in UsageCorrection.objects.all():
            assert proposed.state == "proposed"
            assert proposed.reason.startswith("A person accepted the evidence")
            approve_correction(correction_id=proposed.pk, is_four_eyes=True, actor=FRANK, at=FIRST)
        assert sums() == {"ghost": 3600 + delta}


def test_statements_do_not_grow_with_pods(cluster: Cluster, project: Project) -> None:
    del cluster, project
    metering = seal_hour(pod("a"))
    counts = []
    for at, pods in ((FIRST, 2), (SECOND, 60)):
        late = [ended_pod(f"late-{n}", 0, 60) for n in range(pods)]
        learn(metering, pod("a"), *late, nodes=(node(allocatable={"nvidia_com_gpu": 999}),))
        with CaptureQueriesContext(connection) as asked:
            assert recheck(metering, at).corrections == 1
        counts.append(len(asked))

    assert counts[0] == counts[1]
    assert len(sums()) == 61

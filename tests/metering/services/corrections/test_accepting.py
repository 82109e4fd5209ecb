"""A person accepts one source's evidence, and the hour is billed by it."""

import pytest

from metering.domain.collection.reconciliation import Side
from metering.domain.errors import (
    ExceptionNotSidedError,
    ExceptionResolvedError,
    MeteringExceptionNotFoundError,
    NoteMissingError,
    WindowStateError,
)
from metering.models import (
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
    UsageRecord,
)
from metering.protocols import Observation
from metering.services.catalogue import ensure_catalogue
from metering.services.collection.sealing import seal_window
from metering.services.collection.sweeping import meter_due
from metering.services.corrections.exceptions import accept_side
from tenants.domain.actors import Actor, ActorKind
from tenants.models import AuditEntry, Cluster, Project
from tests.support.builders import make_user
from tests.support.metering.allocations.watched import ledgered, offered, watched
from tests.support.metering.collecting import DUE, claim, collect, exceptions, usage
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    ended_pod,
    moment,
    observation,
    pod,
    ticks,
    worker,
)


@pytest.fixture(autouse=True)
def stage(project: Project, cluster: Cluster) -> None:  # noqa: ARG001 - The open window.
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster)
    offered(cluster)


@pytest.fixture
def frank() -> Actor:
    user = make_user("frank")
    return Actor(kind=ActorKind.PERSON, id=str(user.pk), label="frank")


@pytest.fixture
def different(cluster: Cluster) -> Observation:
    """Both sources saw a pod of two GPUs, and Prometheus saw it twice as long."""
    ledgered(cluster, "a", 0, 1000, units=2)
    seen = observation(ended_pod("a", 0, 2000, units=2))
    collect(seen)
    return seen


def accept(side: Side, actor: Actor, note: str = "The node's log says so.") -> MeteringException:
    found = MeteringException.objects.get(state="open")
    return accept_side(exception_id=found.pk, side=side, note=note, actor=actor, at=DUE)


@pytest.mark.parametrize(("side", "seconds"), [(Side.KUBERNETES, 1000), (Side.PROMETHEUS, 2000)])
def test_an_open_hour_is_metered_again_by_the_accepted_side(
    different: Observation, frank: Actor, side: Side, seconds: int
) -> None:
    answered = accept(side, frank)

    window = MeteringWindow.objects.get()
    assert (window.state, window.not_before, window.failures) == ("open", DUE, 0)
    assert (answered.state, answered.resolution) == ("resolved", "The node's log says so.")
    assert str(answered.resolved_by_id) == frank.id

    meter_due(worker=worker(different), at=DUE)

    assert [(row[0], row[5], row[6]) for row in usage()] == [("a", seconds, 2 * seconds)]
    assert exceptions() == []
    window.refresh_from_db()
    assert (window.state, window.reconciliation["pods"]) == ("sealed", {"accepted": 1})


def test_a_decision_and_its_reason_are_kept(different: Observation, frank: Actor) -> None:
    del different
    found = accept(Side.PROMETHEUS, frank)

    kept = ReconciliationDecision.objects.get()
    assert (kept.pod_uid, kept.resource, kept.side) == ("a", "nvidia_com_gpu", "prometheus")
    assert (kept.window_start, kept.note, str(kept.decided_by_id)) == (
        HOUR,
        "The node's log says so.",
        frank.id,
    )
    entry = AuditEntry.objects.get(action="metering:exception:accept_evidence")
    assert (entry.actor_label, entry.object_id) == ("frank", str(found.pk))
    assert entry.facts == {
        "kind": "differs",
        "subject": "a nvidia_com_gpu",
        "side": "prometheus",
        "held_unit_seconds": 2000,
        "note": "The node's log says so.",
    }


def test_the_newest_decision_is_in_force(different: Observation, frank: Actor) -> None:
    accept(Side.PROMETHEUS, frank)
    # As other facts open it; the database refuses to open a decision over the same.
    MeteringException.objects.update(
        state="open", resolution="", resolved_at=None, resolved_by=None, held_unit_seconds=1
    )
    accept(Side.KUBERNETES, frank)

    collect(different)

    assert UsageRecord.objects.get().unit_seconds == 2000
    assert ReconciliationDecision.objects.count() == 2


@pytest.mark.parametrize(("side", "billed"), [(Side.KUBERNETES, 0), (Side.PROMETHEUS, 1000)])
def test_a_pod_only_prometheus_saw_was_there_or_was_not(
    frank: Actor, side: Side, billed: int
) -> None:
    seen = observation(ended_pod("ghost", 0, 1000))
    collect(seen)

    accept(side, frank)
    collect(seen)

    assert sum(UsageRecord.objects.values_list("unit_seconds", flat=True)) == billed
    assert exceptions() == []


def test_a_pod_only_the_api_reported_of_is_billed_to_nobody_by_prometheus_word(
    cluster: Cluster, frank: Actor
) -> None:
    ledgered(cluster, "a", 0, 1000)
    collect(observation())

    accept(Side.PROMETHEUS, frank)
    collect(observation())

    assert usage() == []
    assert exceptions() == []


def test_the_accepted_sides_request_is_billed(cluster: Cluster, frank: Actor) -> None:
    ledgered(cluster, "a", units=2)
    seen = observation(pod("a", units=4))
    collect(seen)

    accept(Side.PROMETHEUS, frank)
    collect(seen)

    assert [(row[4], row[6]) for row in usage()] == [(4, 14_400)]


def test_a_sealed_hour_stays_as_it_is_and_is_looked_at_again(
    different: Observation, frank: Actor
) -> None:
    del different
    window = MeteringWindow.objects.get()
    seal_window(window_id=window.pk, actor=ACTOR, at=DUE)
    before = usage()

    accept(Side.PROMETHEUS, frank)

    window.refresh_from_db()
    assert (window.state, usage()) == ("sealed", before)
    asked = window.rechecks.get(reason="decision")
    assert (asked.requested_by, asked.note) == ("frank", "The node's log says so.")


def test_a_gap_goes_on_waiting_for_a_person(different: Observation, frank: Actor) -> None:
    del different
    MeteringWindow.objects.update(state="gap")

    accept(Side.KUBERNETES, frank)

    assert MeteringWindow.objects.get().state == "gap"


# ---------------------------------------------------------------- refusals


def test_a_decision_needs_its_reason(different: Observation, frank: Actor) -> None:
    del different
    with pytest.raises(NoteMissingError) as refusal:
        accept(Side.KUBERNETES, frank, note=" ")

    assert refusal.value.code == "metering_note_missing"
    assert (exceptions(), ReconciliationDecision.objects.count()) == (
        [("differs", "a nvidia_com_gpu", 2000)],
        0,
    )


def test_what_is_not_there_is_not_accepted(frank: Actor) -> None:
    with pytest.raises(MeteringExceptionNotFoundError):
        accept_side(exception_id=0, side=Side.KUBERNETES, note="x", actor=frank, at=DUE)


def test_what_is_resolved_is_not_accepted_again(different: Observation, frank: Actor) -> None:
    del different
    found = accept(Side.KUBERNETES, frank)

    with pytest.raises(ExceptionResolvedError):
        accept_side(exception_id=found.pk, side=Side.PROMETHEUS, note="x", actor=frank, at=DUE)

    assert ReconciliationDecision.objects.get().side == "kubernetes"


def test_what_no_two_sources_tell_differently_has_no_side(cluster: Cluster, frank: Actor) -> None:
    ledgered(cluster, "a", namespace="stray")
    collect(observation(pod("a", namespace="stray")))

    with pytest.raises(ExceptionNotSidedError) as refusal:
        accept(Side.KUBERNETES, frank)

    assert refusal.value.code == "metering_exception_not_sided"
    assert exceptions() == [("unbound_namespace", "a nvidia_com_gpu", 3600)]


def test_an_hour_that_is_being_collected_is_not_decided_about(
    different: Observation, frank: Actor
) -> None:
    del different
    claim()

    with pytest.raises(WindowStateError):
        accept(Side.KUBERNETES, frank)

    assert not ReconciliationDecision.objects.exists()
    assert exceptions() == [("differs", "a nvidia_com_gpu", 2000)]


# ---------------------------------------------------------------- what is reported later


def test_what_the_accepted_side_reported_is_kept_with_the_decision(
    different: Observation, frank: Actor
) -> None:
    del different
    accept(Side.PROMETHEUS, frank)

    kept = ReconciliationDecision.objects.get()
    assert (kept.known_as, kept.begin_at, kept.end_at) == ("exact", HOUR, moment(2000))
    assert (kept.units, kept.slack_seconds, kept.namespace) == (2, 0, "team-nlp")


def test_accepted_evidence_is_billed_though_its_source_is_away(
    different: Observation, frank: Actor
) -> None:
    del different
    accept(Side.PROMETHEUS, frank)

    collect(observation(ticks=ticks(3400, 5400)))

    assert [row[-2:] for row in usage()] == [(2000, 4000)]


def test_an_accepted_pod_that_nobody_shows_of_any_more_is_held_and_not_dropped(
    frank: Actor,
) -> None:
    collect(observation(ended_pod("g", 0, 1800, units=2)))
    accept(Side.PROMETHEUS, frank)

    collect(observation())

    assert usage() == []
    assert exceptions() == [("prometheus_only", "g nvidia_com_gpu", 3600)]
    assert MeteringException.objects.get().namespace == "team-nlp"


def test_an_accepted_pod_outside_the_hour_is_not_held(frank: Actor) -> None:
    collect(observation(ended_pod("g", 0, 1800)))
    accept(Side.KUBERNETES, frank)

    collect(observation())

    assert exceptions() == []

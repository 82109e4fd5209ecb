"""What metering gave up on waits for a person, and the person's reason is kept."""

from datetime import datetime, timedelta

import pytest

from metering.domain.collection.windows import GapPolicy, MeteringPolicy
from metering.domain.errors import (
    NoteMissingError,
    WindowNotFoundError,
    WindowNotOverdueError,
    WindowSealedError,
    WindowStateError,
)
from metering.models import (
    CapacityRecord,
    ExceptionState,
    MeteringException,
    MeteringWindow,
    UsageRecord,
)
from metering.services.collection.collecting import collect_window
from metering.services.collection.hour_decisions import decide_window, retry_window
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.collection.windows import claim_windows, open_due_windows
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import DomainError
from tenants.models import AuditEntry
from tests.support.builders import bind, make_cluster, make_organization, make_project, make_user
from tests.support.metering.collecting import seal_empty_hours
from tests.support.metering.seen import HOUR, LATER, observation, pod, ticks, worker

pytestmark = pytest.mark.django_db

EARLY = HOUR + timedelta(hours=24, minutes=59)
OLD = HOUR + timedelta(days=3)


@pytest.fixture
def frank() -> Actor:
    user = make_user("frank")
    return Actor(kind=ActorKind.PERSON, id=str(user.pk), label="frank")


@pytest.fixture
def blinking() -> Worker:
    """A worker whose source saw half of HOUR, and whose other hours were empty."""
    project = make_project(make_organization())
    cluster = seal_empty_hours(make_cluster(metered_from=HOUR), until=OLD)
    bind(cluster, "team-nlp", project)
    half = observation(pod("a"), ticks=ticks(begin=1800))
    metering = worker(half)
    meter_due(worker=metering, at=OLD)
    return metering


def window() -> MeteringWindow:
    return MeteringWindow.objects.get(start_at=HOUR)


def test_an_old_hour_half_seen_waits_for_a_person(blinking: Worker) -> None:
    assert window().state == "gap"
    assert not UsageRecord.objects.exists()

    assert meter_due(worker=blinking, at=OLD).is_idle


def test_an_accepted_gap_is_metered_from_what_was_seen(blinking: Worker, frank: Actor) -> None:
    decide_window(
        window_id=window().id,
        decision=GapPolicy.ACCEPT,
        note="The pods ran on.",
        actor=frank,
        at=OLD,
    )
    meter_due(worker=blinking, at=OLD)

    assert (window().state, window().accepts_low_coverage) == ("sealed", True)
    assert UsageRecord.objects.get().unit_seconds == 3600
    [found] = MeteringException.objects.all()
    assert (found.kind, found.state) == ("low_coverage", ExceptionState.RESOLVED)
    assert (found.resolution, str(found.resolved_by_id)) == ("The pods ran on.", frank.id)
    entry = AuditEntry.objects.get(action="metering:window:accept")
    assert (entry.actor_label, entry.facts["note"]) == ("frank", "The pods ran on.")
    assert entry.facts["state_before"] == "gap"


def test_a_waived_gap_is_sealed_without_usage(blinking: Worker, frank: Actor) -> None:
    decide_window(
        window_id=window().id, decision=GapPolicy.WAIVE, note="Outage.", actor=frank, at=OLD
    )
    meter_due(worker=blinking, at=OLD)

    assert (window().state, window().record_count) == ("sealed", 0)
    assert not UsageRecord.objects.exists()
    assert MeteringException.objects.get().state == ExceptionState.RESOLVED


@pytest.mark.usefixtures("blinking")
def test_waiving_drops_what_an_earlier_attempt_recorded(frank: Actor) -> None:
    accepted = observation(pod("a"))
    whole = worker(accepted)
    MeteringWindow.objects.filter(start_at=HOUR).update(state="open", not_before=OLD)
    [claimed] = claim_windows(worker="w", limit=1, at=OLD)
    collect_window(claimed=claimed, source=whole.source, actor=whole.actor, at=OLD)
    assert UsageRecord.objects.exists()
    MeteringWindow.objects.filter(start_at=HOUR).update(state="gap")

    decide_window(
        window_id=window().id, decision=GapPolicy.WAIVE, note="Outage.", actor=frank, at=OLD
    )

    assert not UsageRecord.objects.exists()
    assert not CapacityRecord.objects.filter(window_start=HOUR).exists()
    assert window().state == "reconciled"


def test_a_quarantined_window_that_was_never_asked_about_can_be_waived(frank: Actor) -> None:
    made = MeteringWindow.objects.create(
        cluster=make_cluster(metered_from=HOUR), start_at=HOUR, not_before=OLD, state="quarantined"
    )

    decide_window(window_id=made.id, decision=GapPolicy.WAIVE, note="Broken.", actor=frank, at=OLD)
    meter_due(worker=worker(), at=HOUR)

    assert (window().state, window().as_of) == ("sealed", OLD)


def quarantine() -> None:
    """Let every worker that claims HOUR die."""
    expired = MeteringPolicy(lease_seconds=-1)
    for _ in range(expired.attempts_max + 1):
        claim_windows(worker="dead", limit=1, at=OLD, policy=expired)
    assert window().state == "quarantined"


@pytest.mark.parametrize("decision", [None, *GapPolicy])
def test_a_quarantine_is_an_exception_until_it_is_decided_on_or_metered(
    decision: GapPolicy | None, frank: Actor
) -> None:
    seal_empty_hours(make_cluster(metered_from=HOUR), until=OLD)
    open_due_windows(at=HOUR + timedelta(seconds=3600 + LATER))
    quarantine()

    if decision is None:
        retry_window(window_id=window().id, actor=frank, at=OLD)
        assert MeteringException.objects.get().state == ExceptionState.OPEN
    else:
        decide_window(window_id=window().id, decision=decision, note="Why.", actor=frank, at=OLD)
        assert MeteringException.objects.get().resolution == "Why."
    assert not window().accepts_low_coverage
    meter_due(worker=worker(), at=OLD)

    assert (window().state, MeteringException.objects.get().state) == ("sealed", "resolved")


def test_a_window_quarantined_again_is_an_open_exception_again(frank: Actor) -> None:
    seal_empty_hours(make_cluster(metered_from=HOUR), until=OLD)
    open_due_windows(at=HOUR + timedelta(seconds=3600 + LATER))
    for _ in range(2):
        quarantine()
        found = MeteringException.objects.get()
        assert (found.state, found.resolved_by_id, found.resolution) == ("open", None, "")
        decide_window(
            window_id=window().id, decision=GapPolicy.ACCEPT, note="x", actor=frank, at=OLD
        )


def test_metering_again_takes_an_acceptance_back(blinking: Worker, frank: Actor) -> None:
    decide_window(window_id=window().id, decision=GapPolicy.ACCEPT, note="x", actor=frank, at=OLD)

    retry_window(window_id=window().id, actor=frank, at=OLD)
    meter_due(worker=blinking, at=OLD)

    assert (window().state, window().accepts_low_coverage) == ("gap", False)


@pytest.mark.usefixtures("blinking")
def test_a_decision_needs_a_reason(frank: Actor) -> None:
    with pytest.raises(NoteMissingError) as refusal:
        decide_window(
            window_id=window().id, decision=GapPolicy.WAIVE, note=" ", actor=frank, at=OLD
        )

    assert (refusal.value.code, refusal.value.field) == ("metering_note_missing", "note")
    assert window().state == "gap"


@pytest.mark.parametrize(
    ("state", "at", "refused"),
    [
        ("open", EARLY, WindowNotOverdueError),
        ("collected", EARLY, WindowNotOverdueError),
        ("reconciled", EARLY, WindowStateError),
        ("reconciled", OLD, WindowStateError),
    ],
)
def test_an_hour_is_decided_on_only_once_it_is_over_its_patience(
    state: str, at: datetime, refused: type[DomainError], frank: Actor
) -> None:
    made = MeteringWindow.objects.create(
        cluster=make_cluster(metered_from=HOUR), start_at=HOUR, not_before=OLD, state=state
    )

    with pytest.raises(refused) as refusal:
        decide_window(
            window_id=made.id, decision=GapPolicy.ACCEPT, note="Why not.", actor=frank, at=at
        )

    assert refusal.value.facts["state"] == state
    assert window().state == state
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("state", ["open", "collecting", "collected"])
@pytest.mark.parametrize("decision", ["accept", "waive"])
def test_an_hour_over_its_patience_is_decided_on_in_any_state_before_it_adds_up(
    state: str, decision: str, frank: Actor
) -> None:
    made = MeteringWindow.objects.create(
        cluster=make_cluster(metered_from=HOUR),
        start_at=HOUR,
        not_before=OLD,
        state=state,
        lease_until=OLD if state == "collecting" else None,
    )

    decide_window(
        window_id=made.id, decision=GapPolicy(decision), note="Gone.", actor=frank, at=OLD
    )

    is_settled = decision == "waive" or state == "collected"
    after = "reconciled" if is_settled else "open"
    assert (window().state, window().gap_policy, window().lease_until) == (after, decision, None)
    assert not window().accepts_low_coverage


@pytest.mark.parametrize("state", ["open", "collected", "reconciled", "gap", "quarantined"])
def test_any_window_that_is_not_sealed_can_be_metered_again(state: str, frank: Actor) -> None:
    made = MeteringWindow.objects.create(
        cluster=make_cluster(metered_from=HOUR),
        start_at=HOUR,
        not_before=OLD,
        state=state,
        attempt=9,
        failures=4,
    )

    retry_window(window_id=made.id, note="Bound now.", actor=frank, at=OLD - timedelta(hours=1))

    again = window()
    assert (again.state, again.attempt, again.failures) == ("open", 0, 0)
    assert again.not_before == OLD - timedelta(hours=1)
    assert AuditEntry.objects.get().facts["state_before"] == state


def test_a_window_that_is_being_collected_is_left_alone(frank: Actor) -> None:
    made = MeteringWindow.objects.create(
        cluster=make_cluster(metered_from=HOUR),
        start_at=HOUR,
        not_before=OLD,
        state="collecting",
        lease_until=OLD,
    )

    with pytest.raises(WindowStateError):
        retry_window(window_id=made.id, actor=frank, at=OLD)

    assert window().state == "collecting"


def test_a_sealed_window_is_metered_and_decided_no_more(frank: Actor) -> None:
    make_cluster(metered_from=HOUR)
    meter_due(worker=worker(), at=HOUR + timedelta(seconds=3600 + LATER))
    assert window().state == "sealed"

    with pytest.raises(WindowSealedError):
        retry_window(window_id=window().id, actor=frank, at=OLD)
    with pytest.raises(WindowSealedError):
        decide_window(
            window_id=window().id, decision=GapPolicy.WAIVE, note="x", actor=frank, at=OLD
        )

    assert window().state == "sealed"


def test_a_window_that_does_not_exist_is_not_found(frank: Actor) -> None:
    with pytest.raises(WindowNotFoundError):
        retry_window(window_id=0, actor=frank, at=OLD)

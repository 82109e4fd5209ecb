"""Credits of corrected hours: never more than is still charged, and late reports count."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, InternalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from metering.domain.errors import CreditStaleError, CreditWithdrawnError
from metering.models import (
    ClusterHealth,
    CreditProposal,
    CreditState,
    MeteringWindow,
    PodAllocation,
    UsageCorrection,
)
from metering.services.corrections.review import ask_correction
from metering.services.devices.credits import WITHDRAWN, decide_credit, propose_credits
from metering.services.efficiency.deriving import Derived
from tenants.models import AuditEntry
from tests.support.builders import make_user
from tests.support.metering.waste_world import (
    DAY,
    HOUR,
    TICK,
    WasteWorld,
    add_late,
    correct,
    derive,
    make_waste_world,
    person,
    seal,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def world() -> WasteWorld:
    """A project that holds one whole H100, which fails after ten minutes of an hour."""
    made = make_waste_world()
    made.hold()
    return made


@shared_rows
def trainer(world: WasteWorld) -> PodAllocation:
    """The pod on it."""
    return world.held[0]


@shared_rows
def hour(world: WasteWorld, trainer: PodAllocation) -> MeteringWindow:
    """The hour, sealed, with fifty spoiled minutes."""
    window = world.window(0)
    world.use(window, trainer)
    world.measure(window, trainer)
    world.fail(window, 600)
    return seal(window)


def only() -> tuple[str, int]:
    """Return state and unit-seconds of the only proposal."""
    return CreditProposal.objects.values_list("state", "unit_seconds").get()


def decide(state: CreditState) -> CreditProposal:
    dora = make_user(f"dora-{state}")
    return decide_credit(
        proposal_id=CreditProposal.objects.get().pk,
        state=state,
        reason="XID 79.",
        actor=person(dora.pk, "dora"),
        at=DAY + 5 * HOUR,
    )


def test_usage_that_was_retracted_before_is_not_proposed(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    correct(hour, trainer, None)

    assert derive() == Derived(windows=1)

    assert not CreditProposal.objects.exists()
    assert ClusterHealth.objects.get().corrections_seen == 1


@pytest.mark.parametrize(("delta", "left"), [(-600, 3000), (-601, 2999), (-3000, 600), (-3599, 1)])
def test_no_more_is_proposed_than_corrections_left(
    hour: MeteringWindow, trainer: PodAllocation, delta: int, left: int
) -> None:
    correct(hour, trainer, delta)

    derive()

    assert only() == ("proposed", left)


def test_a_pending_proposal_shrinks_with_its_usage(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()
    assert only() == ("proposed", 3000)

    correct(hour, trainer, -2000)

    assert derive() == Derived(corrected=1, credits=1)
    assert only() == ("proposed", 1600)
    assert derive() == Derived()


def test_a_pending_proposal_without_usage_is_withdrawn_and_says_why(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()

    correct(hour, trainer, None)
    assert derive() == Derived(corrected=1)

    assert only() == ("withdrawn", 0)
    assert CreditProposal.objects.get().reason == WITHDRAWN
    assert CreditProposal.objects.get().decided_at is None


def test_a_withdrawn_proposal_comes_back_with_its_usage(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()
    correct(hour, trainer, None)
    derive()

    correct(hour, trainer, 1200)
    derive()

    assert only() == ("proposed", 1200)
    assert CreditProposal.objects.get().reason == ""


@pytest.mark.parametrize("state", [CreditState.ACCEPTED, CreditState.DISMISSED])
def test_a_withdrawn_proposal_is_not_decided(
    hour: MeteringWindow, trainer: PodAllocation, state: CreditState
) -> None:
    derive()
    correct(hour, trainer, None)
    derive()

    with pytest.raises(CreditWithdrawnError) as refusal:
        decide(state)

    assert refusal.value.code == "metering_credit_withdrawn"
    assert only() == ("withdrawn", 0)
    assert not AuditEntry.objects.filter(action__startswith="metering:credit:").exists()


def test_nothing_is_accepted_of_an_hour_that_was_corrected_meanwhile(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()
    correct(hour, trainer, -3000)

    with pytest.raises(CreditStaleError) as refusal:
        decide(CreditState.ACCEPTED)
    assert refusal.value.code == "metering_credit_stale"
    assert only() == ("proposed", 3000)

    derive()
    assert (
        decide_credit(
            proposal_id=CreditProposal.objects.get().pk,
            state=CreditState.ACCEPTED,
            reason="XID 79.",
            actor=TICK,
            at=DAY + 6 * HOUR,
        ).unit_seconds
        == 600
    )


def test_a_dismissal_needs_no_fresh_look(hour: MeteringWindow, trainer: PodAllocation) -> None:
    derive()
    correct(hour, trainer, -3000)

    assert decide(CreditState.DISMISSED).state == "dismissed"


def test_a_correction_that_waits_for_a_person_changes_nothing_yet(hour: MeteringWindow) -> None:
    derive()
    ask_correction(
        record=hour.records.get(),
        unit_seconds=None,
        reason="Doubt.",
        is_four_eyes=True,
        actor=TICK,
        at=DAY,
    )

    assert derive() == Derived()
    assert only() == ("proposed", 3000)
    assert decide(CreditState.ACCEPTED).state == "accepted"


def test_an_accepted_credit_shows_what_was_taken_back_since(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()
    decide(CreditState.ACCEPTED)
    taken_back = []

    for delta in (-600, -1000, None, 3600):
        correct(hour, trainer, delta)
        derive()
        taken_back.append(CreditProposal.objects.get().retracted_unit_seconds)

    assert taken_back == [0, 1000, 3000, 0]
    assert only() == ("accepted", 3000)


def test_a_dismissed_credit_stays_as_it_is(hour: MeteringWindow, trainer: PodAllocation) -> None:
    derive()
    decide(CreditState.DISMISSED)
    before = CreditProposal.objects.values_list().get()

    correct(hour, trainer, None)
    derive()

    assert CreditProposal.objects.values_list().get() == before


def test_use_that_was_reported_late_is_proposed(world: WasteWorld, hour: MeteringWindow) -> None:
    late = world.hold("late-0", node="node-2")
    other = world.fail(hour, 1800, node="node-2", uuid="GPU-late-0")
    derive()
    assert only() == ("proposed", 3000)

    add_late(hour, late, 3000)
    assert derive() == Derived(corrected=1, credits=2)

    found = CreditProposal.objects.get(pod_name="late-0")
    assert (found.unit_seconds, found.is_certain, found.event) == (1200, False, other)
    assert found.usage_record == hour.records.get(pod_uid=late.pod_uid, revision=1).pk


def test_an_end_that_turned_out_earlier_takes_the_failure_after_it_away(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()

    add_late(hour, trainer, 900, instead_of=3600)
    derive()
    assert only() == ("proposed", 300)

    add_late(hour, trainer, 600, instead_of=900)
    derive()
    assert only() == ("withdrawn", 0)


def test_two_corrections_between_two_looks_are_seen_at_once(
    hour: MeteringWindow, trainer: PodAllocation
) -> None:
    derive()
    correct(hour, trainer, -1000)
    correct(hour, trainer, -1000)

    assert derive() == Derived(corrected=1, credits=1)

    assert only() == ("proposed", 1600)
    assert ClusterHealth.objects.get().corrections_seen == 2
    reported = AuditEntry.objects.filter(action="metering:window:recredit").get()
    assert (reported.actor_label, reported.facts) == ("metering.tick", {"credits": 1})


def test_proposing_again_changes_nothing(hour: MeteringWindow, trainer: PodAllocation) -> None:
    correct(hour, trainer, -2500)
    derive()
    before = CreditProposal.objects.values_list().get()

    again = propose_credits(window_id=hour.pk, start_at=hour.start_at, at=DAY + 9 * HOUR)

    assert again == 1
    assert CreditProposal.objects.values_list().get() == before


def test_only_the_windows_that_were_corrected_are_looked_at_again(
    world: WasteWorld, hour: MeteringWindow, trainer: PodAllocation
) -> None:
    world.hour(1)
    derive()
    correct(hour, trainer, -3000)

    assert derive() == Derived(corrected=1, credits=1)

    found = CreditProposal.objects.order_by("window_start").values_list("unit_seconds", flat=True)
    assert list(found) == [600, 3600]


def test_statements_of_a_second_look_do_not_grow_with_records(
    world: WasteWorld, hour: MeteringWindow, trainer: PodAllocation
) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert derive().corrected == 1
        return len(captured)

    derive()
    correct(hour, trainer, -10)
    few = statements()
    for number in range(10):
        add_late(hour, world.hold(f"late-{number}"), 3600)

    assert statements() == few
    assert UsageCorrection.objects.count() == 11


@pytest.mark.parametrize(
    ("state", "change"),
    [
        ("accepted", {"unit_seconds": 1}),
        ("accepted", {"reason": "Other."}),
        ("accepted", {"state": "withdrawn", "unit_seconds": 0}),
        ("dismissed", {"state": "proposed"}),
        ("accepted", {"retracted_unit_seconds": 3001}),
        ("proposed", {"unit_seconds": 0}),
        ("proposed", {"state": "withdrawn"}),
        ("proposed", {"retracted_unit_seconds": -1}),
    ],
)
@pytest.mark.usefixtures("hour")
def test_the_database_keeps_decisions_and_sums(state: str, change: dict[str, object]) -> None:
    derive()
    CreditProposal.objects.update(state=state, decided_at=DAY + timedelta(days=1))
    before = CreditProposal.objects.values_list().get()

    with pytest.raises((IntegrityError, InternalError), match="credit"), transaction.atomic():
        CreditProposal.objects.update(**change)

    assert CreditProposal.objects.values_list().get() == before

"""Credits for broken hardware: what overlaps a failure, for whom it is certain, decided once."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, InternalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from metering.domain.errors import CreditDecidedError, NoteMissingError
from metering.models import CreditProposal, CreditState, DeviceEvent
from metering.services.devices.credits import decide_credit
from metering.services.devices.events import end_device_event
from tenants.models import AuditEntry
from tests.support.builders import make_user
from tests.support.metering.waste_world import (
    DAY,
    HOUR,
    WasteWorld,
    derive,
    make_waste_world,
    person,
    seal,
)
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def world() -> WasteWorld:
    """A project that holds one whole H100 for a day."""
    made = make_waste_world()
    made.hold()
    return made


def proposed() -> list[tuple[str, int, bool]]:
    """Return pod, unit-seconds and certainty of each proposal, by hour."""
    rows = CreditProposal.objects.order_by("window_start", "pod_name")
    return [(one.pod_name, one.unit_seconds, one.is_certain) for one in rows]


def test_usage_after_a_failure_is_proposed_until_the_pod_ends(world: WasteWorld) -> None:
    first = world.window(0)
    pod = world.held[0]
    world.use(first, pod)
    world.measure(first, pod)
    event = world.fail(first, 600)
    seal(first)
    second = world.window(1)
    world.use(second, pod, until=1200)
    world.measure(second, pod)
    seal(second)

    assert derive().credits == 2

    assert proposed() == [("trainer-0", 3000, True), ("trainer-0", 1200, True)]
    proposal = CreditProposal.objects.earliest("window_start")
    assert (proposal.event, proposal.state) == (event, "proposed")
    assert (proposal.project, proposal.organization) == (world.project, world.organization)
    assert (proposal.owner, proposal.size) == ("carol", "large")


@pytest.mark.parametrize("severity", ["warn", "application"])
def test_only_failures_are_credited(world: WasteWorld, severity: str) -> None:
    window = world.window(0)
    world.use(window, world.held[0])
    world.measure(window, world.held[0])
    world.fail(window, 600, severity=severity, code="31")
    seal(window)

    assert derive().credits == 0


def test_a_pod_on_another_device_of_the_node_is_not_touched(world: WasteWorld) -> None:
    world.hold("neighbour-0")
    window = world.window(0)
    for pod in world.held:
        world.use(window, pod)
        world.measure(window, pod)
    world.fail(window, 600)
    seal(window)

    derive()

    assert proposed() == [("trainer-0", 3000, True)]


def test_without_an_attribution_the_whole_node_is_uncertain(world: WasteWorld) -> None:
    world.hold("neighbour-0", units=2)
    elsewhere = world.hold("elsewhere-0", node="node-2")
    window = world.window(0)
    for pod in world.held:
        world.use(window, pod)
    world.fail(window, 600)
    seal(window)

    derive()

    assert elsewhere.pod_name not in {name for name, _, _ in proposed()}
    assert proposed() == [("neighbour-0", 6000, False), ("trainer-0", 3000, False)]


def test_a_failed_instance_touches_only_its_own_pod(world: WasteWorld) -> None:
    world.held.clear()
    window = world.window(0)
    for key in ("7", "8"):
        pod = world.hold(
            f"slice-{key}",
            resource="nvidia.com/mig-1g.10gb",
            sharing_mode="mig",
            size="small",
            price_group="H100/1g.10gb",
            share_numerator=1,
            share_denominator=7,
        )
        world.use(window, pod)
        world.measure(window, pod, uuid="GPU-m", instance_id=key, instance_profile="1g.10gb")
    world.fail(window, 0, uuid="GPU-m", instance_id="8")
    seal(window)

    derive()

    assert proposed() == [("slice-8", 3600, True)]


def test_a_failure_of_the_parent_touches_every_instance(world: WasteWorld) -> None:
    world.held.clear()
    window = world.window(0)
    for key in ("7", "8"):
        pod = world.hold(f"slice-{key}", sharing_mode="mig", resource="nvidia.com/mig-1g.10gb")
        world.use(window, pod)
        world.measure(window, pod, uuid="GPU-m", instance_id=key, instance_profile="1g.10gb")
    world.fail(window, 3000, uuid="GPU-m")
    seal(window)

    derive()

    assert proposed() == [("slice-7", 600, True), ("slice-8", 600, True)]


def test_failures_that_overlap_are_credited_once(world: WasteWorld) -> None:
    window = world.window(0)
    world.use(window, world.held[0])
    world.measure(window, world.held[0])
    first = world.fail(window, 0, kind="health", code="MEM", end_at=DAY + timedelta(minutes=10))
    world.fail(window, 300, kind="health", code="SM", end_at=DAY + timedelta(minutes=20))
    world.fail(window, 1800, kind="health", code="ALL", end_at=DAY + timedelta(minutes=31))
    seal(window)

    derive()

    assert proposed() == [("trainer-0", 1260, True)]
    assert CreditProposal.objects.get().event == first


def test_a_pod_placed_after_the_failure_is_not_its_victim(world: WasteWorld) -> None:
    world.held.clear()
    late = world.hold("late-0", begin_at=DAY + timedelta(minutes=30))
    window = world.window(0)
    world.use(window, late)
    world.measure(window, late, uuid="GPU-trainer-0")
    world.fail(window, 600)
    seal(window)

    assert derive().credits == 0


def test_an_event_that_a_person_ended_spoils_nothing_later(world: WasteWorld) -> None:
    window = world.window(0)
    pod = world.held[0]
    world.use(window, pod)
    world.measure(window, pod)
    event = world.fail(window, 600)
    frank = make_user("frank")

    end_device_event(
        event_id=event.pk,
        note="Drained.",
        actor=person(frank.pk, "frank"),
        at=DAY + timedelta(minutes=20),
    )
    seal(window)
    world.hour(1)
    derive()

    assert proposed() == [("trainer-0", 600, True)]
    assert AuditEntry.objects.get(action="metering:device_event:end").facts["note"] == "Drained."


def test_statements_do_not_grow_with_records_and_events(world: WasteWorld) -> None:
    def statements(hour: int) -> int:
        window = world.window(hour)
        for pod in world.held:
            world.use(window, pod)
            world.measure(window, pod)
            world.fail(window, 60, uuid=f"GPU-{pod.pod_name}")
        seal(window)
        with CaptureQueriesContext(connection) as captured:
            derive()
        return len(captured)

    statements(0)
    few = statements(1)
    for number in range(20):
        world.hold(f"more-{number}")

    assert statements(2) == few
    assert CreditProposal.objects.count() == 23


# ---------------------------------------------------------------- decisions


@shared_rows
def proposal(world: WasteWorld) -> CreditProposal:
    """A proposal of fifty minutes."""
    window = world.window(0)
    world.use(window, world.held[0])
    world.measure(window, world.held[0])
    world.fail(window, 600)
    seal(window)
    derive()
    return CreditProposal.objects.get()


@pytest.mark.parametrize(
    ("state", "verb"), [(CreditState.ACCEPTED, "accept"), (CreditState.DISMISSED, "dismiss")]
)
def test_a_person_decides_once_with_a_reason(
    proposal: CreditProposal, state: CreditState, verb: str
) -> None:
    dora = make_user("dora")
    actor = person(dora.pk, "dora")

    decided = decide_credit(
        proposal_id=proposal.pk, state=state, reason=" XID 79. ", actor=actor, at=DAY + 5 * HOUR
    )

    assert (decided.state, decided.reason) == (state, "XID 79.")
    assert (decided.decided_by, decided.decided_at) == (dora, DAY + 5 * HOUR)
    entry = AuditEntry.objects.get(action=f"metering:credit:{verb}")
    assert (entry.actor_label, entry.facts["unit_seconds"]) == ("dora", 3000)
    with pytest.raises(CreditDecidedError):
        decide_credit(
            proposal_id=proposal.pk,
            state=CreditState.DISMISSED,
            reason="No.",
            actor=actor,
            at=DAY + 6 * HOUR,
        )
    proposal.refresh_from_db()
    assert (proposal.state, proposal.reason) == (state, "XID 79.")


def test_a_decision_has_a_reason_and_is_one(proposal: CreditProposal) -> None:
    actor = person(make_user("dora").pk, "dora")

    with pytest.raises(NoteMissingError):
        decide_credit(
            proposal_id=proposal.pk, state=CreditState.ACCEPTED, reason=" ", actor=actor, at=DAY
        )
    with pytest.raises(ValueError, match="accepts or dismisses"):
        decide_credit(
            proposal_id=proposal.pk, state=CreditState.PROPOSED, reason="x", actor=actor, at=DAY
        )
    proposal.refresh_from_db()
    assert (proposal.state, proposal.decided_by) == ("proposed", None)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE metering_creditproposal SET state = 'proposed' WHERE id = %s",
        "DELETE FROM metering_creditproposal WHERE id = %s",
    ],
)
def test_the_database_keeps_a_decision(proposal: CreditProposal, statement: str) -> None:
    CreditProposal.objects.filter(pk=proposal.pk).update(state="accepted", reason="Yes.")

    with (
        pytest.raises((IntegrityError, InternalError), match="credit"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement, [proposal.pk])


def test_the_database_keeps_what_was_seen_of_a_device(proposal: CreditProposal) -> None:
    event = proposal.event

    for change in ({"code": "13"}, {"severity": "warn"}, {"begin_at": DAY}):
        with pytest.raises((IntegrityError, InternalError), match="stays"), transaction.atomic():
            DeviceEvent.objects.filter(pk=event.pk).update(**change)
    with pytest.raises((IntegrityError, InternalError), match="stays"), transaction.atomic():
        DeviceEvent.objects.filter(pk=event.pk)._raw_delete(using="default")  # noqa: SLF001

    event.refresh_from_db()
    assert (event.code, event.severity) == ("79", "fail")

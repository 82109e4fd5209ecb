"""Credits beside archived months: none is lost, taken back or proposed because rows are absent."""

import psycopg
import pytest

from metering.models import (
    ClusterHealth,
    CreditProposal,
    CreditState,
    MeteringWindow,
    PodAllocation,
)
from metering.services.devices.credits import decide_credit
from tenants.models import AuditEntry
from tests.support.builders import make_user
from tests.support.config.archives import attach_rows, detach_rows
from tests.support.metering.waste_world import (
    DAY,
    HOUR,
    WasteWorld,
    correct,
    derive,
    make_waste_world,
    person,
    seal,
)

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture
def hour(committed_db: str) -> MeteringWindow:  # noqa: ARG001 - In a database of its own.
    """An hour of two pods on a node, of which one has a GPU that fails after ten minutes."""
    world = make_waste_world()
    world.hold()
    world.hold("neighbour-0")
    return failing_hour(world)


def failing_hour(world: WasteWorld) -> MeteringWindow:
    window = world.window(0)
    for pod in world.held:
        world.use(window, pod)
        world.measure(window, pod)
    world.fail(window, 600)
    return seal(window)


def credited() -> list[tuple[str, str, int, int, bool]]:
    """Return pod, state, unit-seconds, those that were taken back, and certainty of each."""
    return [
        (one.pod_name, one.state, one.unit_seconds, one.retracted_unit_seconds, one.is_certain)
        for one in CreditProposal.objects.order_by("pod_name")
    ]


def accept() -> None:
    """Accept the only credit."""
    decide_credit(
        proposal_id=CreditProposal.objects.get().pk,
        state=CreditState.ACCEPTED,
        reason="XID 79.",
        actor=person(make_user("dora").pk, "dora"),
        at=DAY + 5 * HOUR,
    )


def test_a_correction_of_an_hour_with_archived_devices_takes_back_and_proposes_nothing(
    hour: MeteringWindow, owner: psycopg.Connection
) -> None:
    derive()
    accept()
    assert credited() == [("trainer-0", "accepted", 3000, 0, True)]
    detach_rows(owner, "devices", "metering_devicefigure")

    trainer, neighbour = PodAllocation.objects.order_by("-pod_name")
    correct(hour, trainer, -2000)
    correct(hour, neighbour, -100)

    assert derive().corrected == 1
    assert credited() == [("trainer-0", "accepted", 3000, 1400, True)]
    assert ClusterHealth.objects.get().corrections_seen == 2
    entry = AuditEntry.objects.filter(action="metering:window:recredit").get()
    assert entry.facts == {"credits": 0, "devices": "archived"}


def test_credits_wait_while_the_usage_of_their_hour_is_archived(
    hour: MeteringWindow, owner: psycopg.Connection
) -> None:
    derive()
    accept()
    trainer, _ = PodAllocation.objects.order_by("-pod_name")
    correct(hour, trainer, -2000)
    detach_rows(owner, "usage", "metering_usagerecord")

    assert derive().corrected == 0
    assert credited() == [("trainer-0", "accepted", 3000, 0, True)]

    attach_rows(owner, "metering_usagerecord")
    assert derive().corrected == 1
    assert credited() == [("trainer-0", "accepted", 3000, 1400, True)]


@pytest.mark.parametrize(
    ("table", "partitioned"),
    [("usage", "metering_usagerecord"), ("devices", "metering_devicefigure")],
)
def test_an_hour_is_not_derived_while_its_rows_are_archived(
    hour: MeteringWindow, owner: psycopg.Connection, table: str, partitioned: str
) -> None:
    detach_rows(owner, table, partitioned)

    assert derive().windows == 0
    assert not CreditProposal.objects.exists()

    attach_rows(owner, partitioned)
    assert derive().windows == 1
    assert credited() == [("trainer-0", "proposed", 3000, 0, True)]
    assert ClusterHealth.objects.get().window == hour

"""Waste findings over sealed hours: opened, continued, closed, dismissed; nothing twice."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.errors import FindingNotOpenError, NoteMissingError
from metering.models import ClusterHealth, WasteFinding
from metering.services.efficiency.deriving import Derived
from metering.services.efficiency.waste import dismiss_finding
from tenants.models import AuditEntry
from tests.support.builders import make_cluster, make_user
from tests.support.metering.waste_world import (
    BUSY,
    DAY,
    HOUR,
    IDLE,
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


def only() -> WasteFinding:
    return WasteFinding.objects.get()


def test_a_busy_hour_leaves_a_health_row_and_no_finding(world: WasteWorld) -> None:
    window = world.hour(0)

    assert derive() == Derived(windows=1)
    assert ClusterHealth.objects.get().window_id == window.pk
    assert not WasteFinding.objects.exists()


def test_an_idle_hour_opens_a_finding_with_all_that_was_held(world: WasteWorld) -> None:
    world.hour(0, IDLE)

    assert derive() == Derived(windows=1, findings=1)

    found = only()
    assert (found.rule, found.state, found.owner) == ("idle", "open", "carol")
    assert (found.project, found.organization) == (world.project, world.organization)
    assert (found.from_at, found.until_at) == (DAY, DAY + HOUR)
    assert (found.units, found.size, found.price_group) == (1, "large", "H100/whole")
    assert (found.suggested_units, found.suggested_price_group) == (0, "")
    assert (found.held_unit_seconds, found.wasted_unit_seconds) == (3600, 3600)
    assert (found.activity_ratio, found.memory_peak_mebibytes) == (Decimal(0), 4)


def test_a_finding_goes_on_over_hours_and_closes_when_it_ends(world: WasteWorld) -> None:
    world.hour(0, IDLE)
    world.hour(1, IDLE)
    derive()
    assert (only().until_at, only().held_unit_seconds) == (DAY + 2 * HOUR, 7200)

    world.hour(2, BUSY)
    derive()

    assert (only().state, only().until_at) == ("closed", DAY + 2 * HOUR)
    assert only().wasted_unit_seconds == 7200


def test_deriving_again_changes_nothing(world: WasteWorld) -> None:
    world.hour(0, IDLE)
    derive()
    before = WasteFinding.objects.values_list().get()

    assert derive() == Derived()
    assert WasteFinding.objects.values_list().get() == before


def test_a_finding_that_comes_back_never_counts_a_second_twice(world: WasteWorld) -> None:
    low = {"memory_used_peak_mebibytes": 7_000}
    for hour in range(4):
        world.hour(hour, Decimal("0.1"), **low)
    derive()
    world.hour(4, BUSY)
    derive()
    for hour in range(5, 9):
        world.hour(hour, Decimal("0.1"), **low)
    derive()

    first, second = WasteFinding.objects.order_by("from_at")

    assert [first.state, second.state] == ["closed", "open"]
    assert (first.from_at, first.until_at) == (DAY, DAY + 4 * HOUR)
    assert (second.from_at, second.until_at) == (DAY + 5 * HOUR, DAY + 9 * HOUR)
    assert (first.held_unit_seconds, second.held_unit_seconds) == (4 * 3600, 4 * 3600)


def test_low_use_for_four_hours_names_the_smaller_instance(world: WasteWorld) -> None:
    for hour in range(4):
        world.hour(hour, Decimal("0.1"), memory_used_peak_mebibytes=7_000)
        assert WasteFinding.objects.count() == 0
    derive()

    found = only()

    assert found.rule == "low_use"
    assert (found.suggested_units, found.suggested_size) == (1, "small")
    assert found.suggested_price_group == "H100/1g.10gb"
    assert (found.held_unit_seconds, found.suggested_unit_seconds) == (14_400, 14_400)
    assert found.wasted_unit_seconds == 14_400 - 14_400 // 7 - 1


def test_a_stronger_word_replaces_a_weaker_one_from_where_that_ended(world: WasteWorld) -> None:
    for hour in range(4):
        world.hour(hour, Decimal("0.1"), memory_used_peak_mebibytes=7_000)
    derive()
    world.hour(4, IDLE)
    derive()

    low, idle = WasteFinding.objects.order_by("from_at")

    assert (low.rule, low.state, low.until_at) == ("low_use", "closed", DAY + 4 * HOUR)
    assert (idle.rule, idle.state, idle.from_at) == ("idle", "open", DAY + 4 * HOUR)
    assert low.held_unit_seconds + idle.held_unit_seconds == 5 * 3600


def test_a_pod_that_never_started_is_reported_from_its_bind(world: WasteWorld) -> None:
    world.held.clear()
    world.hold("stuck-0", begin_at=DAY + timedelta(minutes=30), started_at=None, units=2)
    world.hour(0, None)

    derive()

    assert (only().rule, only().from_at) == ("not_running", DAY + timedelta(minutes=30))
    assert (only().held_unit_seconds, only().wasted_unit_seconds) == (3600, 3600)


def test_a_pod_that_ended_within_the_hour_is_not_accused(world: WasteWorld) -> None:
    window = world.window(0)
    world.use(window, world.held[0], until=3599)
    world.measure(window, world.held[0], IDLE)
    seal(window)

    assert derive() == Derived(windows=1)


@pytest.mark.parametrize(
    "fields",
    [
        {"busy_coverage": Decimal("0.79999")},
        {"busy_ratio": None, "busy_coverage": None},
        {"is_busy_uncertain": True},
        {"power_mean_milliwatts": 200_000},
        {"attribution": "shared"},
        {"seconds": 2879, "end_at": DAY + timedelta(seconds=2879)},
    ],
    ids=["coverage", "no figure", "doubtful", "power", "shared", "part of the hour"],
)
def test_without_sound_data_nobody_is_accused(world: WasteWorld, fields: dict[str, object]) -> None:
    world.hour(0, IDLE, **fields)

    assert derive() == Derived(windows=1)
    assert not WasteFinding.objects.exists()


def test_sm_activity_stands_in_where_use_is_not_measured(world: WasteWorld) -> None:
    world.hour(
        0, IDLE, busy_ratio=None, sm_active_ratio=Decimal(0), sm_active_coverage=Decimal("0.8")
    )

    assert derive().findings == 1


def test_one_idle_gpu_of_two_is_to_be_given_back(world: WasteWorld) -> None:
    world.held.clear()
    pod = world.hold("pair-0", units=2)
    window = world.window(0)
    world.use(window, pod)
    world.measure(window, pod, BUSY, uuid="GPU-a")
    world.measure(window, pod, Decimal("0.01"), uuid="GPU-b", memory_used_peak_mebibytes=900)
    seal(window)

    derive()

    assert (only().rule, only().suggested_units) == ("imbalanced", 1)
    assert (only().held_unit_seconds, only().wasted_unit_seconds) == (7200, 3600)


def test_what_a_person_dismissed_is_not_said_again(world: WasteWorld) -> None:
    world.hour(0, IDLE)
    derive()
    frank = make_user("frank")

    dismissed = dismiss_finding(
        finding_id=only().pk,
        reason=" Standby for the demo. ",
        actor=person(frank.pk, "frank"),
        at=DAY + 3 * HOUR,
    )
    world.hour(1, IDLE)
    derive()

    assert only() == dismissed
    assert (only().state, only().reason) == ("dismissed", "Standby for the demo.")
    assert (only().dismissed_by, only().dismissed_at) == (frank, DAY + 3 * HOUR)
    entry = AuditEntry.objects.get(action="metering:waste:dismiss")
    assert (entry.actor_label, entry.organization_id) == ("frank", world.organization.pk)
    assert entry.facts["wasted_unit_seconds"] == 3600


def test_a_dismissal_needs_a_reason_and_an_open_finding(world: WasteWorld) -> None:
    world.hour(0, IDLE)
    derive()
    frank = person(make_user("frank").pk, "frank")

    with pytest.raises(NoteMissingError):
        dismiss_finding(finding_id=only().pk, reason=" ", actor=frank, at=DAY)
    assert only().state == "open"

    WasteFinding.objects.update(state="closed")
    with pytest.raises(FindingNotOpenError):
        dismiss_finding(finding_id=only().pk, reason="Meant so.", actor=frank, at=DAY)
    assert (only().state, only().reason) == ("closed", "")
    assert not AuditEntry.objects.filter(action="metering:waste:dismiss").exists()


def test_an_hour_that_was_sealed_late_accuses_nobody(world: WasteWorld) -> None:
    world.hour(1, BUSY)
    derive()
    world.hour(0, IDLE)

    assert derive() == Derived(windows=1)
    assert ClusterHealth.objects.count() == 2
    assert not WasteFinding.objects.exists()


def test_clusters_do_not_close_each_others_findings(world: WasteWorld) -> None:
    world.hour(0, IDLE)
    derive()
    other = make_waste_world("umbrella", make_cluster("ampere"))
    other.hold("idle-1")
    other.hour(1, IDLE)

    derive()

    assert sorted(WasteFinding.objects.values_list("pod_name", "state")) == [
        ("idle-1", "open"),
        ("trainer-0", "open"),
    ]


def statements_of(world: WasteWorld, hour: int) -> int:
    world.hour(hour, IDLE)
    with CaptureQueriesContext(connection) as statements:
        derive()
    return len(statements)


def test_statements_do_not_grow_with_pods(world: WasteWorld) -> None:
    statements_of(world, 0)
    few = statements_of(world, 1)
    for number in range(30):
        world.hold(f"more-{number}")

    assert statements_of(world, 2) == few
    assert WasteFinding.objects.filter(state="open").count() == 31


def test_a_device_claim_is_not_judged(world: WasteWorld) -> None:
    world.held.clear()
    world.hold("claim-0", resource="claim/gpu.nvidia.com", started_at=None)
    world.hour(0, None)

    assert derive() == Derived(windows=1)
    assert not WasteFinding.objects.exists()

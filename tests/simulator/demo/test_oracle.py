"""The oracle against worlds small enough to reckon by hand."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from simulator.cluster.scenario import (
    Container,
    Outage,
    Pod,
    PodPhase,
    Scenario,
    SimulatedCluster,
)
from simulator.cluster.tenancy import (
    NamespacePlan,
    OrganizationPlan,
    PlannedBook,
    PlannedPrice,
    ProjectPlan,
)
from simulator.demo.oracle import OracleVerdict, Unknowable, judge, month_hours

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
UNTIL = datetime(2026, 11, 2, tzinfo=UTC)
NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)
BOOK = PlannedBook(
    slug="b",
    name="B",
    currency="EUR",
    prices=(
        PlannedPrice("large", "*", Decimal("2.00")),
        PlannedPrice("large", "*", Decimal("3.00"), from_day=16),
        PlannedPrice("large", "A100/whole", Decimal("1.00")),
    ),
)
PLAN = OrganizationPlan(
    slug="acme",
    name="Acme",
    billing_currency="EUR",
    time_zone="UTC",
    cost_center="",
    billing_contact="",
    billing_email="",
    billing_address="",
    people=(),
    projects=(ProjectPlan("llm", "LLM", "", (NamespacePlan("hopper", "llm"),)),),
)
POD = Pod(
    uid="u-1",
    namespace="llm",
    name="train-0",
    node="n",
    created_at=NOON,
    scheduled_at=NOON,
    started_at=NOON,
    finished_at=NOON + timedelta(hours=1),
    deleted_at=NOON + timedelta(hours=2),
    end_phase=PodPhase.SUCCEEDED,
    containers=(Container("main", requests={"nvidia.com/gpu": 2}),),
    resource="nvidia.com/gpu",
    labels={},
    owner="",
    owner_kind="Job",
    owner_name="train",
    priority_class="",
    slots=(),
    true_units=2,
    true_size="large",
    true_price_group="H100/whole",
    true_sharing_mode="whole",
)
DELETED = replace(POD, finished_at=None, end_phase=PodPhase.RUNNING)


def verdict_on(
    *pods: Pod, outages: tuple[Outage, ...] = (), plan: OrganizationPlan = PLAN
) -> OracleVerdict:
    cluster = SimulatedCluster(
        slug="hopper",
        name="Hopper",
        nodes=(),
        namespaces=(),
        pods=pods,
        offered_resources=(),
        scrape_interval_seconds=60,
        outages=outages,
    )
    world = Scenario(
        seed=1, begin_at=BEGIN, until=UNTIL, organizations=(plan,), clusters=(cluster,)
    )
    return judge(world, (BOOK,), year=2026, month=10)


def total_of(verdict: OracleVerdict) -> Decimal:
    return verdict.invoices[0].total


def test_two_gpus_for_an_hour_cost_two_unit_hours() -> None:
    verdict = verdict_on(POD)

    assert verdict.invoices[0].unit_seconds == {"large": 7200}
    assert total_of(verdict) == Decimal("4.00")
    assert verdict.unknowable == ()


def test_a_price_change_cuts_the_quantity_at_its_hour() -> None:
    begin = datetime(2026, 10, 15, 23, tzinfo=UTC)
    pod = replace(
        POD,
        created_at=begin,
        scheduled_at=begin,
        finished_at=begin + timedelta(hours=2),
        deleted_at=begin + timedelta(hours=3),
    )

    lines = verdict_on(pod).invoices[0].lines

    assert lines == {
        ("llm", "large", "H100/whole", Decimal("2.00")): Decimal("4.00"),
        ("llm", "large", "H100/whole", Decimal("3.00")): Decimal("6.00"),
    }


def test_the_price_of_the_own_group_goes_before_any() -> None:
    verdict = verdict_on(replace(POD, true_price_group="A100/whole"))

    assert total_of(verdict) == Decimal("2.00")


def test_a_pod_that_vanishes_ends_halfway_between_two_scrapes() -> None:
    pod = replace(DELETED, deleted_at=NOON + timedelta(minutes=10, seconds=50))

    verdict = verdict_on(pod)

    assert verdict.invoices[0].unit_seconds == {"large": 2 * 630}
    assert verdict.unknowable == (
        Unknowable("hopper", "llm/train-0", "vanished between two scrapes", 40),
    )


def test_a_pod_that_ends_inside_an_outage_is_billed_to_its_last_observation() -> None:
    outage = Outage(NOON + timedelta(minutes=10, seconds=1), NOON + timedelta(minutes=40))
    pod = replace(DELETED, deleted_at=NOON + timedelta(minutes=30))

    verdict = verdict_on(pod, outages=(outage,))

    assert verdict.invoices[0].unit_seconds == {"large": 2 * 600}
    assert verdict.unknowable == (
        Unknowable("hopper", "llm/train-0", "ended inside an outage", 2 * 1200),
    )


def test_a_pod_between_two_scrapes_is_not_billed_but_listed() -> None:
    begin = NOON + timedelta(seconds=5)
    pod = replace(
        DELETED, created_at=begin, scheduled_at=begin, deleted_at=begin + timedelta(seconds=30)
    )

    verdict = verdict_on(pod)

    assert verdict.invoices[0].unit_seconds == {}
    assert total_of(verdict) == Decimal("0.00")
    assert verdict.unknowable == (
        Unknowable("hopper", "llm/train-0", "lived between two scrapes", 60),
    )


@pytest.mark.parametrize(
    "pod",
    [
        replace(POD, scheduled_at=None),
        replace(POD, rejected_at=NOON, finished_at=None),
        replace(POD, true_size=""),
        replace(POD, namespace="nobody"),
    ],
    ids=["pending", "refused by the kubelet", "unmapped", "unbound"],
)
def test_what_held_nothing_billable_is_on_no_invoice(pod: Pod) -> None:
    assert verdict_on(pod).invoices[0].lines == {}


def test_a_month_in_berlin_begins_before_the_utc_month() -> None:
    berlin = replace(PLAN, time_zone="Europe/Berlin")

    assert month_hours(berlin, year=2026, month=10) == (
        datetime(2026, 9, 30, 22, tzinfo=UTC),
        datetime(2026, 10, 31, 23, tzinfo=UTC),
    )
    assert month_hours(PLAN, year=2026, month=12) == (
        datetime(2026, 12, 1, tzinfo=UTC),
        datetime(2027, 1, 1, tzinfo=UTC),
    )

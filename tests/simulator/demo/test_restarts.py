"""A demo that starts again leaves alone what people have made, changed or taken away in it."""

from datetime import UTC, datetime, timedelta

import pytest
from rich.progress import Progress
from structlog.testing import capture_logs

from billing.models import PriceBookAssignment
from metering.models import MeteringWindow
from quotas.models import QuotaLimit
from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.demo_tenancy import ORGANIZATIONS
from simulator.demo.limit_seeding import seed_limits
from simulator.demo.month import meter_month
from simulator.demo.plan import LIMITS
from simulator.demo.seeding import Endpoints, seed, seed_organization
from simulator.demo.world import CLUSTERS, World
from tenants.domain.actors import system_actor
from tests.support.builders import make_cluster, make_organization

pytestmark = pytest.mark.django_db

ACTOR = system_actor("demo.seed")
HOUR = timedelta(hours=1)
BEGIN = datetime(2026, 10, 1, tzinfo=UTC)
AT = datetime(2026, 11, 2, tzinfo=UTC)
NORTHWIND = [limit for limit in LIMITS if limit.organization == "northwind"]
WORLD = World(
    seed=1,
    year=2026,
    month=10,
    metered_from=BEGIN,
    metered_until=BEGIN + 2 * HOUR,
    covered_until=AT,
    password="unused password",
)


def make_hour(slug: str, *states: str) -> None:
    """Make a cluster whose hours from the month's begin on are in these states."""
    cluster = make_cluster(slug, metered_from=BEGIN)
    for number, state in enumerate(states):
        start_at = BEGIN + number * HOUR
        sealed_at = start_at + 2 * HOUR if state == "sealed" else None
        MeteringWindow.objects.create(
            cluster=cluster,
            start_at=start_at,
            state=state,
            sealed_at=sealed_at,
            as_of=sealed_at,
            not_before=start_at,
        )


def test_the_month_waits_for_no_cluster_that_a_visitor_registered() -> None:
    for slug in CLUSTERS:
        make_hour(slug, "sealed", "sealed")
    make_hour("visitors", "gap")

    meter_month(WORLD, Progress(disable=True))

    visitors = MeteringWindow.objects.get(cluster__slug="visitors")
    assert (visitors.state, visitors.gap_policy) == ("gap", "")


def limits() -> dict[tuple[str, str], int | None]:
    rows = QuotaLimit.objects.values_list("project__slug", "size", "limit_units")
    return {(project or "", size): units for project, size, units in rows}


PLANNED = {(limit.project, limit.size): limit.limit_units for limit in NORTHWIND}


def seed_northwind() -> list[tuple[str, str]]:
    """Seed its limits, and return what was reported of those left out."""
    with capture_logs() as logs:
        seed_limits(NORTHWIND, actor=ACTOR, at=AT)
    return [(line["at"], line["size"]) for line in logs if line["event"] == "demo.limit.skipped"]


@pytest.fixture
def northwind() -> None:
    plan = next(plan for plan in ORGANIZATIONS if plan.slug == "northwind")
    seed_organization(plan, "unused password", actor=ACTOR, at=AT)


@pytest.mark.usefixtures("northwind")
def test_a_first_start_sets_every_planned_limit() -> None:
    assert seed_northwind() == []

    assert limits() == PLANNED


@pytest.mark.usefixtures("northwind")
def test_a_limit_that_there_is_no_room_for_any_more_is_left_out_and_reported() -> None:
    seed_northwind()
    QuotaLimit.objects.get(project__slug="llm", size="large").delete()
    QuotaLimit.objects.filter(project__slug="genomics", size="large").update(limit_units=24)

    assert seed_northwind() == [("northwind/llm", "large")]

    changed = {key: units for key, units in PLANNED.items() if key != ("llm", "large")}
    assert limits() == {**changed, ("genomics", "large"): 24}


def test_an_organization_that_a_visitor_made_is_given_no_prices() -> None:
    visitors = make_organization("visitors", billing_currency="EUR")

    seed(
        demo_scenario(1, BEGIN, BEGIN + timedelta(days=1)),
        metered_from=BEGIN,
        year=2026,
        month=10,
        endpoints=dict.fromkeys(CLUSTERS, Endpoints("", "", "")),
        password="unused password",
        at=AT,
    )

    priced = set(PriceBookAssignment.objects.values_list("organization__slug", flat=True))
    assert visitors.slug not in priced
    assert priced == {plan.slug for plan in ORGANIZATIONS}

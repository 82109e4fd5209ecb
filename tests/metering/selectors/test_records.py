"""Records of a project: found by its organization and by the hours of its bindings."""

import json
from datetime import datetime

import pytest
from django.db import connection

from metering.models import UsageRecord
from metering.selectors.collection.records import records_of_project
from tenants.models import Cluster, Project
from tests.support.builders import bind, make_project
from tests.support.metering.plans import scans
from tests.support.metering.waste_world import DAY, HOUR, make_waste_world
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def stopped() -> Project:
    """A project that used the second of six hours, beside another of its organization."""
    world = make_waste_world()
    world.hold()
    project, other = world.project, make_project(world.organization, "vision")
    for hour in range(6):
        world.project = project if hour == 1 else other
        world.hour(hour)
    return project


def hours_of(project: Project) -> tuple[list[datetime], int]:
    """Return the hours of a project's records, and how many records were read to find them."""
    found = records_of_project(UsageRecord.objects.order_by("-window_start"), project.pk)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_bitmapscan = off")
    (plan,) = json.loads(found.explain(format="json", analyze=True))
    read = sum(rows for table, rows in scans(plan["Plan"]) if "usagerecord" in table)
    return [record.window_start for record in found], read


@pytest.mark.parametrize(
    ("begin", "end", "read"), [(1, 2, 1), (1, None, 5), (None, 2, 2), (None, None, 6)], ids=str
)
def test_hours_without_a_binding_are_not_read(
    stopped: Project, begin: int | None, end: int | None, read: int
) -> None:
    bind(
        Cluster.objects.get(),
        "llm",
        stopped,
        begin_at=None if begin is None else DAY + begin * HOUR,
        end_at=None if end is None else DAY + end * HOUR,
    )

    assert hours_of(stopped) == ([DAY + HOUR], read)


def test_the_hours_between_two_bindings_are_read_too(stopped: Project) -> None:
    cluster = Cluster.objects.get()
    bind(cluster, "llm", stopped, begin_at=DAY + HOUR, end_at=DAY + 2 * HOUR)
    bind(cluster, "llm", stopped, begin_at=DAY + 3 * HOUR, end_at=DAY + 4 * HOUR)

    assert hours_of(stopped) == ([DAY + HOUR], 3)

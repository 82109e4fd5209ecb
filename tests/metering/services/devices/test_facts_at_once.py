"""A fact that two posts add at once is stored twice, and read as one (ADR 0108)."""

from datetime import datetime
from decimal import Decimal

import pytest
from django.db import connection, transaction

from metering.models import DeviceUsage, MeteringWindow
from metering.services.devices.posting import COVERAGES, DEVICE_FACTS, HOLDERS
from tests.support.billing.ledger import HOUR, make_window
from tests.support.builders import MONTH_START, make_cluster
from tests.support.metering.device_rows import make_device_usage
from tests.support.threads import in_thread

pytestmark = pytest.mark.usefixtures("committed_db")
IDS = ("id", "window_id", "window_start", "begin_at", "end_at")


def measure(window: MeteringWindow) -> DeviceUsage:
    """Write a device that nobody held in an hour."""
    return make_device_usage(
        window,
        uuid="GPU-1",
        node="node-1",
        attribution="idle",
        busy_ratio=Decimal("0.5"),
        busy_coverage=Decimal(1),
        begin_at=window.start_at,
        end_at=window.start_at + HOUR,
    )


def count(table: str) -> int:
    """Return how many rows a table has."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - Of ours.
        return int(cursor.fetchone()[0])


def facts() -> list[int]:
    """Return how many facts of each kind there are."""
    return [count(table.name) for table in (DEVICE_FACTS, HOLDERS, COVERAGES)]


def hours() -> dict[datetime, dict[str, object]]:
    """Return what each hour's device did."""
    rows = {row["window_start"]: row for row in DeviceUsage.objects.values()}
    return {
        start_at: {name: value for name, value in row.items() if name not in IDS}
        for start_at, row in rows.items()
    }


def test_a_fact_with_two_ids_reads_as_one_and_is_not_added_a_third_time() -> None:
    cluster = make_cluster()
    first, second, third = (make_window(cluster, MONTH_START + n * HOUR) for n in range(3))
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_device_partition(%s)", [MONTH_START])

    with transaction.atomic():
        measure(first)
        in_thread(lambda: measure(second))
    assert facts() == [2, 2, 2]
    measure(third)

    assert facts() == [2, 2, 2]
    found = hours()
    assert len(found) == 3
    assert found[first.start_at] == found[second.start_at] == found[third.start_at]
    assert DeviceUsage.objects.values("node", "uuid", "model").distinct().count() == 1

"""Rows of device usage, written as they are stored: facts with their ids, and figures."""

from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connection

from metering.models import DeviceUsage, MeteringWindow
from metering.services.devices.posting import (
    COVERAGES,
    DEVICE_FACTS,
    FIGURES,
    HOLDERS,
    NO_DATA,
    NUMBER_BITS,
    FactTable,
    fact_ids,
)

_RATIOS: Final = ("busy", "sm_active", "tensor_active", "dram_active")
_WHOLE: Final = (
    "memory_used_peak_mebibytes",
    "memory_total_mebibytes",
    "power_mean_milliwatts",
)
_ADD: Final = f"""
INSERT INTO metering_devicefigure ({FIGURES})
SELECT (%s::bigint << {NUMBER_BITS}) + count(*), %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s,
       %s, %s
  FROM metering_devicefigure WHERE window_start = %s AND id >> {NUMBER_BITS} = %s
RETURNING id
"""  # noqa: S608 - Constants.


def make_device_usage(
    window: MeteringWindow,
    **fields: Any,  # noqa: ANN401 - Columns.
) -> DeviceUsage:
    """Return a row of a window, with the columns of the view."""
    given = {
        "cluster_id": window.cluster_id,
        "organization_id": getattr(fields.get("organization"), "pk", None),
        "project_id": getattr(fields.get("project"), "pk", None),
        **{name: _hundred_thousandths(fields.get(f"{name}_coverage")) for name in COVERAGES.types},
        "is_busy_uncertain": fields.get("is_busy_uncertain", False),
        **fields,
    }
    step = timedelta(milliseconds=1)
    values = [
        window.pk,
        window.start_at,
        fields.get("energy_millijoules"),
        *(_fact_id(table, given) for table in (DEVICE_FACTS, HOLDERS, COVERAGES)),
        *((fields[name] - window.start_at) // step for name in ("begin_at", "end_at")),
        *(_millionths(fields.get(f"{name}_ratio")) for name in _RATIOS),
        *(fields.get(name) for name in _WHOLE),
    ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_device_partition(%s)", [window.start_at])
        cursor.execute(_ADD, [*values, window.start_at, window.pk])
        (row_id,) = cursor.fetchone()
    return DeviceUsage.objects.get(pk=row_id)


def _fact_id(table: FactTable, given: dict[str, Any]) -> int:
    return fact_ids(table, [tuple(given.get(name, "") for name in table.types)])[0]


def _hundred_thousandths(share: Decimal | None) -> int:
    return NO_DATA if share is None else int(share * 100_000)


def _millionths(ratio: Decimal | None) -> int | None:
    return None if ratio is None else int(ratio * 1_000_000)

"""Which device errors mean what: XIDs, counters and levels, as tables.

Source: NVIDIA DCGM, `modules/health/DcgmHealthWatch.cpp` (which XIDs fail and which warn) and
`common/DcgmGPUHardwareLimits.h` (512 remapped rows, 63 retired pages, 100 CRC errors a second);
NVIDIA XID catalogue (which XIDs a program causes by itself).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final


class EventKind(StrEnum):
    """What went wrong."""

    XID = "xid"
    ECC = "ecc"
    ROW_REMAP = "row_remap"
    NVLINK = "nvlink"
    THROTTLE = "throttle"
    HEALTH = "health"


class EventSeverity(StrEnum):
    """Who acts on it: the hardware failed, it may fail, or the program did it."""

    FAIL = "fail"
    WARN = "warn"
    APPLICATION = "application"


XID_ERRORS: Final = "DCGM_FI_DEV_XID_ERRORS"
XID_COUNT: Final = "DCGM_EXP_XID_ERRORS_COUNT"
HEALTH_STATUS: Final = "DCGM_EXP_GPU_HEALTH_STATUS"
ECC_VOLATILE: Final = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
RETIRED_PAGES: Final = "DCGM_FI_DEV_RETIRED_DBE"
ROWS_UNCORRECTABLE: Final = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
ROW_REMAP_FAILURE: Final = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
NVLINK_RECOVERY: Final = "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"
NVLINK_CRC: Final = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
POWER_VIOLATION: Final = "DCGM_FI_DEV_POWER_VIOLATION"
THERMAL_VIOLATION: Final = "DCGM_FI_DEV_THERMAL_VIOLATION"

XIDS_FAIL: Final = frozenset({48, 64, 74, 79, 95, 119, 120, 140})
XIDS_APPLICATION: Final = frozenset({13, 31, 43, 45})
"""A program's own fault; DCGM warns of some of these too, which makes them no hardware failure."""


@dataclass(frozen=True)
class CounterRule:
    """What an increase of a counter means.

    Attributes:
        fails_at: The total from which it is a failure; None for never.
        warns_at: The total from which it is a warning.
        per_second_min: The least rate that counts at all; 0 for any increase.
    """

    kind: EventKind
    code: str
    warns_at: int = 1
    fails_at: int | None = None
    per_second_min: int = 0


COUNTERS: Final[Mapping[str, CounterRule]] = {
    ECC_VOLATILE: CounterRule(EventKind.ECC, "double_bit", fails_at=1),
    RETIRED_PAGES: CounterRule(EventKind.ECC, "retired_pages", warns_at=15, fails_at=64),
    ROWS_UNCORRECTABLE: CounterRule(EventKind.ROW_REMAP, "uncorrectable_rows", fails_at=512),
    ROW_REMAP_FAILURE: CounterRule(EventKind.ROW_REMAP, "remap_failure", fails_at=1),
    NVLINK_RECOVERY: CounterRule(EventKind.NVLINK, "recovery", fails_at=1),
    NVLINK_CRC: CounterRule(EventKind.NVLINK, "crc", per_second_min=100, fails_at=1),
}
"""Counters, and flags that are counters of one."""
VIOLATIONS: Final[Mapping[str, str]] = {POWER_VIOLATION: "power", THERMAL_VIOLATION: "thermal"}
"""Nanoseconds of clock throttling, by cause. Where the exporter counts microseconds, too little is
reported, never too much. Source: DCGM, `dcgm_fields.h` 240 and 241."""
HEALTH_WARN: Final = Decimal(10)
HEALTH_FAIL: Final = Decimal(20)
HEALTH_SECONDS_MIN: Final = 300
THROTTLED_MIN: Final = Decimal("0.05")
THROTTLED_SECONDS_MIN: Final = 600
SAME_XID_SECONDS: Final = 600
"""The gauge and the five-minute counter report one XID twice."""


def severity_of_xid(xid: int) -> EventSeverity:
    """Return the severity of an XID; one that no table knows is a warning."""
    if xid in XIDS_APPLICATION:
        return EventSeverity.APPLICATION
    return EventSeverity.FAIL if xid in XIDS_FAIL else EventSeverity.WARN

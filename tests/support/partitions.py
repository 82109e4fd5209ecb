"""The months that most tests meter, made once: each test would else make them anew, in 35 ms."""

from typing import Final, LiteralString

PARTITIONS: Final[tuple[LiteralString, ...]] = (
    "SELECT metering_ensure_partitions('2026-10-01Z', 3)",
    "SELECT billing_ensure_charge_partitions('{2026-10-01Z}')",
    "SELECT metering_ensure_device_partition('2026-10-01Z')",
)

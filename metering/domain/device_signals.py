"""Device signals: the levels that health metrics of devices stood at, and until when."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True)
class HealthRun:
    """A value that stood unchanged, from its first sight to its last; never 0, which is healthy."""

    value: Decimal
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class HealthSignal:
    """One health metric of one device or MIG instance, copies merged.

    Attributes:
        uuid: The physical GPU.
        instance_id: MIG instance id; "" for a whole GPU.
        metric: Our name of the metric.
        code: What a label tells beside it, such as the XID or the health watch; "" for none.
        runs: Oldest first; between two of them the metric was 0 or not seen.
    """

    uuid: str
    node: str
    instance_id: str
    instance_profile: str
    metric: str
    code: str
    runs: tuple[HealthRun, ...]

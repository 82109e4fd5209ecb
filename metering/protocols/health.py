"""What a source saw of devices' health: the levels each health metric stood at, and until when."""

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


@dataclass(frozen=True)
class HealthObservation:
    """The health signals of one window, and the query behind them; "" and None for no query.

    Attributes:
        signals: One per device, metric and code that was ever above 0.
        step_seconds: How far two sights of one level lie apart.
    """

    signals: tuple[HealthSignal, ...] = ()
    step_seconds: int = 30
    query: str = ""
    asked_at: datetime | None = None
    sha256: str = ""


NO_HEALTH = HealthObservation()

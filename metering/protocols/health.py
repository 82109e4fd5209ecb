"""What a source saw of devices' health in a window, and the query behind it."""

from dataclasses import dataclass
from datetime import datetime

from metering.domain.devices.events import HealthRun, HealthSignal

__all__ = ["NO_HEALTH", "HealthObservation", "HealthRun", "HealthSignal"]


@dataclass(frozen=True)
class HealthObservation:
    """The health signals of one window, and the query behind them; "" and None for no query.

    Attributes:
        signals: One per device, metric and code that was ever above 0.
        step_seconds: Interval between two samples of one level.
    """

    signals: tuple[HealthSignal, ...] = ()
    step_seconds: int = 30
    query: str = ""
    asked_at: datetime | None = None
    sha256: str = ""


NO_HEALTH = HealthObservation()

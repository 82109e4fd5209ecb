"""Celery's kinds of work in billing: they read the clock and the settings, and hold no rule.

What is due follows from the tables, so a lost tick loses nothing and a doubled one does nothing.
`tick` runs everything once, for `manage.py tick`; the Celery tasks do the same in slices.
"""

from billing.tasks.accrual import (
    ACTOR,
    BATCH_RECORDS_MAX,
    accrue_late,
    accrue_pending,
    add_up_days,
    tick_accrual,
    tick_daily_costs,
)
from billing.tasks.exports import export_due, tick_exports
from billing.tasks.periods import TickResult, settle_periods, tick, tick_periods

__all__ = [
    "ACTOR",
    "BATCH_RECORDS_MAX",
    "TickResult",
    "accrue_late",
    "accrue_pending",
    "add_up_days",
    "export_due",
    "settle_periods",
    "tick",
    "tick_accrual",
    "tick_daily_costs",
    "tick_exports",
    "tick_periods",
]

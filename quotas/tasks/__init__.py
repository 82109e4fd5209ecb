"""Celery's kinds of work in quotas: each derives what is due from the tables.

A wake-up only makes it sooner; the next tick finds the same work. `tick` does enforcement without
Celery. The names of tasks stand in beat's schedule and in messages that wait, so they are not those
of their modules.
"""

from quotas.tasks.enforcement import tick, tick_enforcement
from quotas.tasks.fair_use import share_fairly, tick_fair_use
from quotas.tasks.live_use import look_after_live_use, tick_live_use, tick_repair
from quotas.tasks.preemption import preempt, tick_preemption
from quotas.tasks.requests import look_after_requests, tick_requests
from quotas.tasks.retention import purge, tick_retention

__all__ = [
    "look_after_live_use",
    "look_after_requests",
    "preempt",
    "purge",
    "share_fairly",
    "tick",
    "tick_enforcement",
    "tick_fair_use",
    "tick_live_use",
    "tick_preemption",
    "tick_repair",
    "tick_requests",
    "tick_retention",
]

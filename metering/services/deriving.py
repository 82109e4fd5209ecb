"""Deriving: what follows from a sealed window beside the bill: health, credits and waste."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import structlog
from django.db import transaction

from metering.domain.catalogue import Catalogue
from metering.domain.waste_rules import DEFAULT_THRESHOLDS, WasteThresholds
from metering.selectors.derived import (
    corrected_windows,
    is_first_of_day,
    is_newest,
    underived_windows,
)
from metering.selectors.locks import try_tick_lock
from metering.selectors.waste import JudgedWindow
from metering.services.catalogue import ensure_catalogue
from metering.services.cluster_health import see_corrections, write_cluster_health
from metering.services.crediting import propose_credits
from metering.services.waste import update_waste
from tenants.domain.actors import Actor
from tenants.services.audit import record
from tenants.services.turns import run_isolated

logger = structlog.get_logger(__name__)

TICK: Final = "metering.tick_waste"
"""Whose lock it is: that of the task and of `manage.py tick`."""
WINDOWS_PER_ROUND_MAX = 500
"""A day of twenty clusters; a longer backlog is worked off round by round."""


@dataclass(frozen=True)
class Derived:
    """What one round did; `findings` are those that stand at the end of its windows.

    Attributes:
        corrected: Windows whose credits were looked at again because they were corrected.
    """

    windows: int = 0
    corrected: int = 0
    credits: int = 0
    findings: int = 0

    def __add__(self, other: "Derived") -> "Derived":
        """Return both together."""
        return Derived(
            self.windows + other.windows,
            self.corrected + other.corrected,
            self.credits + other.credits,
            self.findings + other.findings,
        )


def derive_windows(
    *,
    actor: Actor,
    at: datetime,
    thresholds: WasteThresholds = DEFAULT_THRESHOLDS,
    limit: int = WINDOWS_PER_ROUND_MAX,
) -> Derived | None:
    """Derive what follows from sealed windows, one after another; see `derive_each`.

    Returns:
        What was done; None when another worker was at it before anything was.
    """
    done = list(derive_each(actor=actor, at=at, thresholds=thresholds, limit=limit))
    total = sum(filter(None, done), Derived())
    return None if None in done and total == Derived() else total


def derive_each(
    *,
    actor: Actor,
    at: datetime,
    thresholds: WasteThresholds = DEFAULT_THRESHOLDS,
    limit: int = WINDOWS_PER_ROUND_MAX,
) -> Iterator[Derived | None]:
    """Derive what follows from sealed windows that were not looked at yet, oldest first.

    Then look again at the credits of those that were corrected. Each window is a transaction of
    its own, done once, by one worker at a time: one that meets another leaves it the rest, so that
    no lock is held or waited for longer than a window takes. A window that fails stops no other.

    Yields:
        What was done for each window; None when another worker is at it, and nothing after that.
    """
    for derive in _deeds(actor=actor, at=at, thresholds=thresholds, limit=limit):
        failed: Derived | None = Derived()
        done = run_isolated(
            partial(_derive_alone, derive),
            otherwise=failed,
            event="metering.derive.failed",
            key="",
            at=at,
        )
        yield done
        if done is None:
            return


def _derive_alone(derive: Callable[[], Derived]) -> Derived | None:
    with transaction.atomic():
        return derive() if try_tick_lock(TICK) else None


def _deeds(
    *, actor: Actor, at: datetime, thresholds: WasteThresholds, limit: int
) -> Iterator[Callable[[], Derived]]:
    """Yield what is to be done for each window, in its order."""
    windows = underived_windows(limit=limit)
    if windows:
        catalogue = ensure_catalogue(actor=actor, at=at)
        for window in windows:
            yield partial(
                derive_window,
                window=window,
                catalogue=catalogue,
                thresholds=thresholds,
                actor=actor,
                at=at,
            )
    for window in corrected_windows(limit=limit):
        yield partial(derive_corrections, window=window, actor=actor, at=at)


def derive_window(
    *,
    window: JudgedWindow,
    catalogue: Catalogue,
    thresholds: WasteThresholds,
    actor: Actor,
    at: datetime,
) -> Derived:
    """Derive what follows from one sealed window; nothing when it was done before.

    Waste is judged by the newest window only: an hour that was sealed late accuses nobody. Rules
    that look back a day or more are judged by the first window of a cluster's UTC day.
    """
    with transaction.atomic():
        if not write_cluster_health(window_id=window.id, at=at):
            return Derived()
        credited = propose_credits(window_id=window.id, start_at=window.start_at, at=at)
        findings = 0
        if is_newest(window):
            findings = update_waste(
                window=window,
                is_daily=is_first_of_day(window),
                thresholds=thresholds,
                catalogue=catalogue,
                at=at,
            )
        record(
            actor=actor,
            at=at,
            action="metering:window:derive",
            object_kind="metering_window",
            object_id=window.id,
            facts={"credits": credited, "findings": findings},
        )
    logger.info("metering.window.derived", window_id=window.id, credits=credited, findings=findings)
    return Derived(windows=1, credits=credited, findings=findings)


def derive_corrections(*, window: JudgedWindow, actor: Actor, at: datetime) -> Derived:
    """Look again at the credits of a derived window that was corrected; nothing when it was not.

    What was said of its waste stays: it accused nobody after the hour was over.
    """
    with transaction.atomic():
        if not see_corrections(window_id=window.id):
            return Derived()
        credited = propose_credits(window_id=window.id, start_at=window.start_at, at=at)
        record(
            actor=actor,
            at=at,
            action="metering:window:recredit",
            object_kind="metering_window",
            object_id=window.id,
            facts={"credits": credited},
        )
    logger.info("metering.window.recredited", window_id=window.id, credits=credited)
    return Derived(corrected=1, credits=credited)

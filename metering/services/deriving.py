"""Deriving: what follows from a sealed window beside the bill: health, credits and waste."""

from dataclasses import dataclass
from datetime import datetime

import structlog
from django.db import transaction

from metering.domain.catalogue import Catalogue
from metering.domain.waste_rules import DEFAULT_THRESHOLDS, WasteThresholds
from metering.selectors.derived import is_newest, underived_windows
from metering.selectors.waste import JudgedWindow
from metering.services.catalogue import ensure_catalogue
from metering.services.cluster_health import write_cluster_health
from metering.services.crediting import propose_credits
from metering.services.waste import update_waste
from tenants.domain.actors import Actor
from tenants.services.audit import record

logger = structlog.get_logger(__name__)

WINDOWS_PER_ROUND_MAX = 500
"""A day of twenty clusters; a longer backlog is worked off round by round."""


@dataclass(frozen=True)
class Derived:
    """What one round did; `findings` are those that stand at the end of its windows."""

    windows: int = 0
    credits: int = 0
    findings: int = 0

    def __add__(self, other: "Derived") -> "Derived":
        """Return both together."""
        return Derived(
            self.windows + other.windows,
            self.credits + other.credits,
            self.findings + other.findings,
        )


def derive_windows(
    *,
    actor: Actor,
    at: datetime,
    thresholds: WasteThresholds = DEFAULT_THRESHOLDS,
    limit: int = WINDOWS_PER_ROUND_MAX,
) -> Derived:
    """Derive what follows from sealed windows that were not looked at yet, oldest first.

    Each window is a transaction of its own, done once: a second worker finds its row and goes on.
    """
    windows = underived_windows(limit=limit)
    if not windows:
        return Derived()
    catalogue = ensure_catalogue(actor=actor, at=at)
    total = Derived()
    for window in windows:
        total += derive_window(
            window=window, catalogue=catalogue, thresholds=thresholds, actor=actor, at=at
        )
    return total


def derive_window(
    *,
    window: JudgedWindow,
    catalogue: Catalogue,
    thresholds: WasteThresholds,
    actor: Actor,
    at: datetime,
) -> Derived:
    """Derive what follows from one sealed window; nothing when it was done before.

    Waste is judged by the newest window only: an hour that was sealed late accuses nobody.
    """
    with transaction.atomic():
        if not write_cluster_health(window_id=window.id, at=at):
            return Derived()
        credited = propose_credits(window_id=window.id, start_at=window.start_at, at=at)
        findings = 0
        if is_newest(window):
            findings = update_waste(
                window=window, thresholds=thresholds, catalogue=catalogue, at=at
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

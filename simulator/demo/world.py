"""The demo's world: which month it plays and where its servers are, kept in `var/demo`.

The first start settles seed and month; every later start continues the same world.
"""

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from simulator.cluster.demo_scenario import demo_scenario
from simulator.cluster.demo_tenancy import AMPERE, HOPPER, ORGANIZATIONS
from simulator.cluster.scenario import Scenario
from simulator.demo.oracle import month_hours
from simulator.demo.private_files import write_private
from simulator.demo.seeding import Endpoints

SEED = 20_261_001
CLUSTERS = (HOPPER, AMPERE)
SCENARIO_MARGIN = timedelta(days=1)
HISTORY_MARGIN = timedelta(hours=2)
"""History begins this long before the first metered hour, so that it sees what began before."""


@dataclass(frozen=True)
class World:
    """One demo world.

    Attributes:
        metered_from: First metered hour, the earliest begin of the month in any zone.
        covered_until: History has been brought into Prometheus up to here.
        password: What every demo person signs in with.
        source: "prometheus", or "simulated" where there is no Prometheus.
        endpoints: Where each cluster is reached, as of the last start.
    """

    seed: int
    year: int
    month: int
    metered_from: datetime
    metered_until: datetime
    covered_until: datetime
    password: str
    source: str = "prometheus"
    endpoints: Mapping[str, Endpoints] | None = None

    @property
    def watched_from(self) -> datetime:
        """When the watch began: before the first metered hour, as history does."""
        return self.metered_from - HISTORY_MARGIN

    @property
    def label(self) -> str:
        """The month, as billing periods are labelled."""
        return f"{self.year:04d}-{self.month:02d}"

    def scenario(self, until: datetime) -> Scenario:
        """Return the world's scenario, true until a moment."""
        return demo_scenario(self.seed, self.metered_from, until + SCENARIO_MARGIN)

    @classmethod
    def begin(cls, at: datetime) -> Self:
        """Return a new world for the last month that is over in every zone."""
        first = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        last_month = first - timedelta(days=1)
        year, month = last_month.year, last_month.month
        spans = [month_hours(plan, year=year, month=month) for plan in ORGANIZATIONS]
        metered_from = min(begin for begin, _ in spans)
        return cls(
            seed=SEED,
            year=year,
            month=month,
            metered_from=metered_from,
            metered_until=max(end for _, end in spans),
            covered_until=metered_from - HISTORY_MARGIN,
            password=secrets.token_urlsafe(12),
        )

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the world of an earlier start, or None at the first."""
        path = folder / "world.json"
        if not path.exists():
            return None
        given: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("metered_from", "metered_until", "covered_until"):
            given[name] = datetime.fromisoformat(given[name]).astimezone(UTC)
        places = given.pop("endpoints") or {}
        endpoints = {slug: Endpoints(**place) for slug, place in places.items()}
        return cls(**given, endpoints=endpoints)

    def write(self, folder: Path) -> None:
        """Keep the world for the next start and for the steps; readable by its owner only."""
        folder.mkdir(parents=True, exist_ok=True)
        write_private(folder / "world.json", json.dumps(asdict(self), default=_text, indent=2))

    def reached_at(self, endpoints: Mapping[str, Endpoints]) -> Self:
        """Return the world with its servers' present addresses."""
        return replace(self, endpoints=dict(endpoints))


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{value!r} has no JSON form here")

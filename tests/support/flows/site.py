"""A site where things go wrong: its people, its clusters, and what its source is made to say."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from msgspec import structs
from rest_framework.test import APIClient

from billing.models import Charge, PriceBook
from billing.tasks import accrue_pending
from metering.models import CapacityRecord, PodAllocation, UsageRecord
from metering.protocols import Observation, PodObservation, UsageSource
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_due
from tenants.models import Cluster
from tests.support.cast import Cast
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    moment,
    node,
    observation,
    ticks,
)

API = "/api/v1"
NEXT_HOUR = moment(3600)
DUE, NEXT_DUE = moment(3600 + LATER), moment(2 * 3600 + LATER)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Site:
    """Acme's project LLM has the namespace team-nlp on hopper, and a book to be billed by."""

    cast: Cast
    hopper: Cluster
    book: PriceBook

    def client_for(self, user: User) -> APIClient:
        """Return a client signed in as somebody."""
        caller = APIClient()
        caller.force_login(user)
        return caller

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Return a list as an auditor, who reads everything, sees it."""
        answer = self.client_for(self.cast.ann).get(f"{API}/{path}/")
        assert answer.status_code == 200, answer.content
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    def post(self, user: User, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Return what a POST that must work answers."""
        answer = self.client_for(user).post(
            f"{API}/{path}/", body, headers={"Idempotency-Key": path}
        )
        assert answer.status_code in {200, 201}, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def run(self, source: UsageSource, at: datetime) -> CollectionSweep:
        """Meter and accrue whatever is due."""
        sweep = meter_due(worker=Worker(name="w", source=source, actor=ACTOR), at=at)
        accrue_pending(at=at, actor=ACTOR)
        return sweep

    def billed(self) -> dict[str, int]:
        """Return charged unit-seconds by hour of the day, as REST shows them."""
        found: dict[str, int] = {}
        for charge in self.listed("charges"):
            hour = charge["window_start"][11:16]
            found[hour] = found.get(hour, 0) + charge["unit_seconds"]
        return found


def nothing_written() -> bool:
    tables = (UsageRecord, CapacityRecord, PodAllocation, Charge)
    return not any(table._default_manager.exists() for table in tables)  # noqa: SLF001 - Django's documented model meta.


def next_hour(*pods: PodObservation) -> Observation:
    """Return the hour after HOUR with pods that ran through both."""
    end = NEXT_HOUR + timedelta(hours=1)
    late = tuple(structs.replace(one, last_seen_at=end + timedelta(seconds=LATER)) for one in pods)
    return observation(
        *late, start_at=NEXT_HOUR, end_at=end, ticks=ticks(start_at=NEXT_HOUR), nodes=(node(),)
    )


# ------------------------------------------------- pods that cannot be sized or attributed


def bind_stray(site: Site) -> None:
    body = {
        "cluster": str(site.hopper.pk),
        "namespace": "stray",
        "project": str(site.cast.llm.pk),
        "valid_from": HOUR.isoformat(),
    }
    site.post(site.cast.frank, "namespace-bindings", body)


def nobody_acts(_: Site) -> None:
    """The cause goes away by itself, such as a node that gets its labels."""

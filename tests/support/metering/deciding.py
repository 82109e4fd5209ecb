"""Deciding on HOUR over REST: what its source answers, and calls of the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rest_framework.test import APIClient

from metering.models import MeteringWindow
from metering.protocols import ClusterTarget, Observation
from metering.services.collection.sweeping import CollectionSweep, Worker, meter_due
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.clients import API
from tests.support.metering.seen import HOUR, ReplayedSource, observation, pod, ticks

Answer = Any
"""The test client's response, with `json`."""
LATE = HOUR + timedelta(days=3)


def source(metering: Worker) -> ReplayedSource:
    assert isinstance(metering.source, ReplayedSource)
    return metering.source


def post(client: APIClient, path: str, body: Mapping[str, object]) -> Answer:
    return client.post(f"{API}/metering-windows/{path}/", dict(body), format="json")


def half(*, begin: int = 1800) -> Observation:
    return observation(pod("a"), pod("b"), ticks=ticks(begin=begin))


def gap() -> MeteringWindow:
    return MeteringWindow.objects.get(start_at=HOUR)


def meter(metering: Worker) -> CollectionSweep:
    """Meter the hour now: the API has decided now, and not when the hour was LATE."""
    MeteringWindow.objects.filter(start_at=HOUR).update(not_before=LATE)
    return meter_due(worker=metering, at=LATE)


def accept(client: APIClient, **fields: object) -> Answer:
    return post(client, f"{gap().pk}/decide", {"decision": "accept", "note": "Known.", **fields})


@dataclass
class RefusedSource(ReplayedSource):
    """A source whose answer about HOUR cannot be used, and never can."""

    reason: str = "two_clusters"

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Refuse HOUR; see protocols.UsageSource."""
        if start_at == HOUR:
            raise SourceUnavailableError("Two clusters, it seems.", reason=self.reason)
        return super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)

"""Sealed hours that are looked at again: what is seen of `HOUR` may change between two looks."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from metering.domain.collection.windows import DEFAULT_POLICY, MeteringPolicy
from metering.models import MeteringWindow, UsageCorrection, UsageRecord
from metering.protocols import Observation, PodObservation
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.corrections.rechecking import RecheckSweep, recheck_due
from tests.support.metering.seen import (
    HOUR,
    LATER,
    ReplayedSource,
    moment,
    observation,
    worker,
)

SEALED_AT = moment(3600 + LATER)
FIRST = moment(2 * 3600)
SECOND = moment(7 * 3600)
THIRD = moment(25 * 3600)


def seal_hour(*pods: PodObservation, **fields: Any) -> Worker:  # noqa: ANN401 - Any field.
    """Meter and seal `HOUR` with these pods; return the worker, whose source may learn more."""
    metering = worker(observation(*pods, **fields))
    meter_due(worker=metering, at=SEALED_AT)
    assert MeteringWindow.objects.get(start_at=HOUR).state == "sealed"
    return metering


def learn(metering: Worker, *pods: PodObservation, **fields: Any) -> None:  # noqa: ANN401 - As above.
    """Let a worker's source tell something else of `HOUR` from now on."""
    source = metering.source
    assert isinstance(source, ReplayedSource)
    source.seen[HOUR] = observation(*pods, **fields)


def recheck(
    metering: Worker, at: datetime = FIRST, *, policy: MeteringPolicy = DEFAULT_POLICY
) -> RecheckSweep:
    """Do the rechecks that are due."""
    return recheck_due(worker=replace(metering, policy=policy), at=at)


def sums() -> dict[str, int]:
    """Return unit-seconds by pod over all revisions."""
    found: dict[str, int] = {}
    for uid, seconds in UsageRecord.objects.values_list("pod_uid", "unit_seconds"):
        found[uid] = found.get(uid, 0) + seconds
    return dict(sorted(found.items()))


def revisions() -> list[tuple[str, int, int]]:
    """Return pod, revision and unit-seconds of every record."""
    rows = UsageRecord.objects.order_by("pod_uid", "revision")
    return list(rows.values_list("pod_uid", "revision", "unit_seconds"))


def corrections() -> list[tuple[str, str, int, int]]:
    """Return cause, state, records and unit-seconds of every correction, in the order asked."""
    rows = UsageCorrection.objects.order_by("requested_at", "id")
    return list(rows.values_list("cause", "state", "record_count", "unit_seconds"))


def hours_later(hours: int) -> datetime:
    """Return so many hours after the end of `HOUR`."""
    return HOUR + timedelta(hours=1 + hours)


def blind(*pods: PodObservation) -> Observation:
    """Return an answer of a source that lost most of the hour."""
    return observation(*pods, ticks=(moment(3607), moment(3637)))

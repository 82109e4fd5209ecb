"""Device collection: device figures of sealed hours, queried, written and sealed separately.

No invoice depends on it. Waste, credits and energy do: they derive from hours whose device figures
are final, which is sealed or unavailable. Unavailable means unknown, never zero.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import structlog
from django.db import transaction

from metering.domain.collection.windows import DEFAULT_POLICY, DeviceState, MeteringPolicy, due_at
from metering.domain.corrections.exceptions import ExceptionKind, Finding
from metering.domain.errors import ClaimLostError
from metering.models import MeteringWindow
from metering.protocols import DeviceFigures, DeviceObservation, UsageSource
from metering.protocols.storable import UID_MAX
from metering.selectors.collection.usage import metered_records
from metering.selectors.devices.usage import device_kinds, nodes_with_held_usage
from metering.selectors.locks import lock_device_events
from metering.services.collection.composed import Hour
from metering.services.collection.findings import write_findings
from metering.services.collection.observing import repeatable_read
from metering.services.collection.sweeping import Counts, Worker, sweep_all
from metering.services.devices.composition import measure_devices
from metering.services.devices.events import write_device_events
from metering.services.devices.leasing import (
    LeasedDevices,
    check_lease,
    lease_devices,
    put_off,
    seal_devices,
)
from metering.services.devices.posting import replace_activities, replace_devices
from tenants.domain.actors import Actor
from tenants.domain.errors import SourceUnavailableError
from tenants.services.audit import audited_use, record
from tenants.services.turns import run_isolated

logger = structlog.get_logger(__name__)

NO_SOURCE: Final = "The cluster has no Prometheus that could report on devices."
NEVER_REPORTED: Final = "No worker that leased the device figures ever reported back."


@dataclass(frozen=True)
class DeviceSweep(Counts):
    """What became of due device figures.

    Attributes:
        retried: Hours whose source returned none, due again later.
        failed: Hours whose figures raised an unexpected error; their lease expires.
    """

    sealed: int = 0
    unavailable: int = 0
    retried: int = 0
    failed: int = 0


_OUTCOMES: Final = {
    DeviceState.SEALED: DeviceSweep(sealed=1),
    DeviceState.UNAVAILABLE: DeviceSweep(unavailable=1),
    DeviceState.DUE: DeviceSweep(retried=1),
}


def collect_due_devices(*, worker: Worker, at: datetime) -> DeviceSweep:
    """Collect device figures one hour after another until none are due."""
    return sweep_all(DeviceSweep(), lambda: collect_next(worker=worker, at=at))


def collect_next(*, worker: Worker, at: datetime) -> DeviceSweep | None:
    """Lease the device figures that are longest due and collect them; None when none are due."""
    leased = lease_devices(
        worker=worker.name, clusters=worker.clusters, at=at, policy=worker.policy
    )
    if leased is None:
        return None
    worker.on_leased()
    return _collect_isolated(leased, worker=worker, at=at)


def _collect_isolated(leased: LeasedDevices, *, worker: Worker, at: datetime) -> DeviceSweep:
    """Collect one hour; a fault in it stops no other, and its lease runs out."""

    def collect() -> DeviceSweep:
        try:
            state = collect_devices(
                leased=leased,
                source=worker.source,
                actor=worker.actor,
                at=at,
                policy=worker.policy,
            )
        except ClaimLostError:
            logger.warning("metering.devices.lease_lost", window_id=leased.id)
            return DeviceSweep()
        return _OUTCOMES[state]

    return run_isolated(
        collect,
        otherwise=DeviceSweep(failed=1),
        event="metering.devices.failed",
        key=leased.id,
        at=at,
    )


@repeatable_read()
def collect_devices(
    *,
    leased: LeasedDevices,
    source: UsageSource,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy = DEFAULT_POLICY,
) -> DeviceState:
    """Query one hour's device figures and seal them; `due` when they are queried again later.

    Raises:
        ClaimLostError: Another worker took the hour over; nothing was written.
    """
    if not leased.hour.asks_a_source:
        return _give_up(leased, reason=NO_SOURCE, is_expected=True, actor=actor, at=at)
    if leased.attempt > policy.attempts_max:
        return _give_up(leased, reason=NEVER_REPORTED, is_expected=False, actor=actor, at=at)
    try:
        with audited_use(slug=leased.target.slug, actor=actor, at=at):
            figures = source.observe_devices(
                leased.target,
                start_at=leased.start_at,
                end_at=leased.end_at,
                as_of=due_at(
                    leased.start_at,
                    lateness_seconds=policy.lateness_seconds,
                    scrape_interval_seconds=leased.target.scrape_interval_seconds,
                ),
            )
        check_figures(figures, hour=leased.hour)
    except SourceUnavailableError as error:
        return _record_failure(leased, error=error, actor=actor, at=at, policy=policy)
    return _post(leased, figures=figures, actor=actor, at=at)


def _post(
    leased: LeasedDevices, *, figures: DeviceFigures, actor: Actor, at: datetime
) -> DeviceState:
    with transaction.atomic():
        check_lease(leased)
        lock_device_events(leased.cluster_id)
        measured = measure_devices(
            metered_records(leased.id, start_at=leased.start_at),
            figures=figures,
            kinds=device_kinds(leased.id),
            held_nodes=nodes_with_held_usage(leased.id),
        )
        replace_devices(leased, rows=measured.devices)
        replace_activities(leased, rows=measured.activities)
        write_device_events(leased, figures=figures)
        rows, digest = seal_devices(
            leased,
            state=DeviceState.SEALED.value,
            at=at,
            evidence=figures.evidence,
            missing=figures.missing_figures,
        )
        record(
            actor=actor,
            at=at,
            action="metering:device_window:seal",
            object_kind="metering_window",
            object_id=leased.id,
            facts={
                "cluster": str(leased.cluster_id),
                "start_at": leased.start_at.isoformat(),
                "rows": rows,
                "digest": digest,
            },
        )
    logger.info("metering.devices.sealed", window_id=leased.id, rows=rows)
    return DeviceState.SEALED


def _record_failure(
    leased: LeasedDevices,
    *,
    error: SourceUnavailableError,
    actor: Actor,
    at: datetime,
    policy: MeteringPolicy,
) -> DeviceState:
    """Retry after a pause, until the patience since the seal of the hour is over.

    An hour that is metered late has as much time: a source that is away for a moment loses nothing.
    """
    sealed_at = MeteringWindow.objects.values_list("sealed_at", flat=True).get(pk=leased.id)
    if at - (sealed_at or leased.end_at) >= timedelta(seconds=policy.device_patience_seconds):
        return _give_up(leased, reason=str(error), is_expected=False, actor=actor, at=at)
    with transaction.atomic():
        check_lease(leased)
        wait = put_off(leased, error=str(error), at=at)
    logger.warning(
        "metering.devices.retried", window_id=leased.id, reason=error.reason, wait_seconds=wait
    )
    return DeviceState.DUE


def _give_up(
    leased: LeasedDevices, *, reason: str, is_expected: bool, actor: Actor, at: datetime
) -> DeviceState:
    """Mark the figures unavailable for good; with an exception where they should exist."""
    finding = Finding(
        kind=ExceptionKind.DEVICES_UNAVAILABLE,
        subject="",
        summary=f"The hour has no device figures and will not get any: {reason}",
        details={"failures": leased.failures},
    )
    with transaction.atomic():
        check_lease(leased)
        if not is_expected:
            write_findings(
                leased,
                findings=[finding],
                at=at,
                resolve_kinds=[ExceptionKind.DEVICES_UNAVAILABLE],
            )
        seal_devices(leased, state=DeviceState.UNAVAILABLE.value, at=at, error=reason)
        record(
            actor=actor,
            at=at,
            action="metering:device_window:give_up",
            object_kind="metering_window",
            object_id=leased.id,
            facts={
                "cluster": str(leased.cluster_id),
                "start_at": leased.start_at.isoformat(),
                "reason": reason,
            },
        )
    logger.info("metering.devices.unavailable", window_id=leased.id, reason=reason)
    return DeviceState.UNAVAILABLE


ENERGY_MILLIJOULES_MAX = 10**12
"""Of one device in one hour: more than 250 kW."""


def check_figures(figures: DeviceFigures, *, hour: Hour) -> None:
    """Refuse device figures that contradict themselves or cannot be stored.

    Raises:
        SourceUnavailableError: A figure is invalid.
        ValueError: They are about another window than requested, which is a bug in the source.
    """
    if (figures.start_at, figures.end_at) != (hour.start_at, hour.end_at):
        raise ValueError("the source answered about another window")
    for device in figures.devices:
        if not _is_possible(device):
            raise SourceUnavailableError(
                f"Device {device.uuid[:UID_MAX]} reports what cannot be.", reason="bad_sample"
            )


def _is_possible(device: DeviceObservation) -> bool:
    ratio, energy = device.busy_ratio, device.energy_millijoules
    return (
        (ratio is None or (ratio.is_finite() and Decimal(0) <= ratio <= Decimal(1)))
        and (energy is None or 0 <= energy <= ENERGY_MILLIJOULES_MAX)
        and device.samples >= 0
    )

"""Collecting `HOUR` in a test: claim it, let a source tell what it saw, read what came of it."""

from datetime import datetime

from metering.domain.collection.windows import WINDOW, GapPolicy
from metering.models import ExceptionState, MeteringException, MeteringWindow, UsageRecord
from metering.protocols import Observation
from metering.services.collection.collecting import Collection, collect_window
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.hour_decisions import decide_window
from metering.services.collection.sealing import seal_window
from metering.services.collection.windows import claim_windows
from metering.services.devices.collection import DeviceSweep, collect_due_devices
from tenants.models import Cluster
from tests.support.metering.seen import ACTOR, HOUR, LATER, moment, worker

DUE = moment(3600 + LATER)


def seal_empty_hours(cluster: Cluster, *, until: datetime) -> Cluster:
    """Seal all but the first two and the last two hours without usage; a worker takes seconds."""
    hours = (until - HOUR) // WINDOW
    MeteringWindow.objects.bulk_create(
        MeteringWindow(
            cluster=cluster,
            start_at=HOUR + WINDOW * number,
            state="sealed",
            not_before=HOUR + WINDOW * (number + 1),
            as_of=HOUR + WINDOW * (number + 1),
            sealed_at=HOUR + WINDOW * (number + 1),
        )
        for number in range(2, hours - 2)
    )
    return cluster


def claim() -> ClaimedWindow:
    """Make the one window due and claim it."""
    MeteringWindow.objects.exclude(state="collecting").update(state="open", not_before=DUE)
    [claimed] = claim_windows(worker="worker-1", limit=1, at=DUE)
    return claimed


def collect(seen: Observation, *, at: datetime = DUE) -> Collection:
    """Meter the one window from what was seen of it."""
    return collect_window(claimed=claim(), source=worker(seen).source, actor=ACTOR, at=at)


def measure(seen: Observation) -> DeviceSweep:
    """Meter and seal the one window, then collect what its devices did."""
    window_id = collect(seen).window_id
    seal_window(window_id=window_id, actor=ACTOR, at=DUE)
    return collect_due_devices(worker=worker(seen), at=DUE)


def usage() -> list[tuple[object, ...]]:
    """Return the records in short, by pod."""
    return list(
        UsageRecord.objects.order_by("pod_uid", "resource").values_list(
            "pod_uid", "size", "price_group", "sharing_mode", "units", "seconds", "unit_seconds"
        )
    )


def exceptions(state: str = ExceptionState.OPEN) -> list[tuple[str, str, int]]:
    """Return kind, subject and held unit-seconds of the exceptions in a state."""
    return list(
        MeteringException.objects.filter(state=state)
        .order_by("kind", "subject")
        .values_list("kind", "subject", "held_unit_seconds")
    )


def decide_last_known(*, gap: Observation | None = None) -> None:
    """Decide to bill the hour as last known, after observations that make a gap of it."""
    for seen in [gap] * 6 if gap is not None else []:
        collect(seen)
    decide_window(
        window_id=MeteringWindow.objects.get(start_at=HOUR).pk,
        decision=GapPolicy.LAST_KNOWN,
        note="x",
        actor=ACTOR,
        at=DUE,
    )

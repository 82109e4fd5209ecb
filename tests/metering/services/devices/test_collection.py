"""Device figures: asked for once the bill is sealed, retried, given up and sealed by themselves."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.collection.windows import DEFAULT_POLICY
from metering.models import (
    DeviceUsage,
    DeviceWindow,
    ExceptionState,
    MeteringException,
    MeteringWindow,
    UsageActivity,
    UsageRecord,
)
from metering.protocols import ClusterTarget, DeviceFigures, DeviceObservation
from metering.selectors.efficiency import underived_windows
from metering.services.collection.sealing import make_missing_due
from metering.services.collection.sweeping import Worker, meter_due
from metering.services.devices.collection import DeviceSweep, collect_due_devices, collect_next
from metering.services.devices.leasing import lease_devices
from tenants.domain.errors import SourceUnavailableError
from tenants.models import AuditEntry, Cluster
from tests.support.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    SLICED_A100,
    ReplayedSource,
    device,
    moment,
    observation,
    pod,
    ticks,
)

pytestmark = pytest.mark.usefixtures("project")
AT = moment(3600 + LATER)
RETENTION = timedelta(seconds=DEFAULT_POLICY.device_patience_seconds)


@dataclass
class RefusingSource(ReplayedSource):
    """A source that answers about pods, and refuses every device query while set so."""

    refuses: bool = True
    reason: str = "query_refused"
    asked_devices: list[datetime] = field(default_factory=list)

    def observe_devices(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> DeviceFigures:
        """Refuse as Prometheus does above its `--query.max-samples`."""
        self.asked_devices.append(start_at)
        if self.refuses:
            raise SourceUnavailableError(
                "Prometheus answered with HTTP status 422.", reason=self.reason
            )
        return super().observe_devices(target, start_at=start_at, end_at=end_at, as_of=as_of)


def worker_of(source: ReplayedSource) -> Worker:
    return Worker(name="worker-1", source=source, actor=ACTOR)


def refusing(*devices: object) -> tuple[RefusingSource, Worker]:
    """Return a source that saw one pod and its GPU, and a worker that asks it."""
    seen = observation(pod("uid-1"), devices=devices or (device(),))  # type: ignore[arg-type]
    source = RefusingSource({HOUR: seen})
    return source, worker_of(source)


def meter_hour(worker: Worker) -> None:
    """Meter `HOUR` alone."""
    Cluster.objects.update(metered_from=HOUR)
    MeteringWindow.objects.update(not_before=AT)
    meter_due(worker=worker, at=AT)


def billed() -> list[tuple[object, ...]]:
    return list(UsageRecord.objects.order_by("pod_uid").values_list("pod_uid", "unit_seconds"))


def test_an_hour_whose_devices_are_refused_is_billed_and_they_follow_when_allowed() -> None:
    source, worker = refusing()
    meter_hour(worker)

    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep(retried=1)

    window = MeteringWindow.objects.get(start_at=HOUR)
    assert (window.state, window.failures, window.last_error) == ("sealed", 0, "")
    assert billed() == [("uid-1", 3600)]
    due = DeviceWindow.objects.get()
    assert (due.state, due.failures, due.attempt, due.sealed_at) == ("due", 1, 0, None)
    assert due.last_error == "Prometheus answered with HTTP status 422."
    assert due.not_before > AT
    assert not DeviceUsage.objects.exists()
    assert not MeteringException.objects.filter(state=ExceptionState.OPEN).exists()

    source.refuses = False
    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep()
    assert collect_due_devices(worker=worker, at=due.not_before) == DeviceSweep(sealed=1)

    due.refresh_from_db()
    assert (due.state, due.failures, due.last_error) == ("sealed", 0, "")
    assert (due.row_count, len(due.row_digest), due.sealed_at) == (2, 64, due.not_before)
    assert DeviceUsage.objects.get().busy_ratio == Decimal("0.5")
    activity = UsageRecord.objects.select_related("activity").get().activity
    assert activity is not None
    assert activity.busy_ratio == Decimal("0.5")
    window.refresh_from_db()
    assert window.sealed_at == AT


def test_a_credential_that_is_refused_for_device_figures_is_audited_once_a_day() -> None:
    source, worker = refusing()
    meter_hour(worker)
    source.reason = "credentials_forbidden"

    for hours in (0, 2, 4, 26):
        collect_due_devices(worker=worker, at=AT + timedelta(hours=hours))

    assert len(source.asked_devices) == 4
    entries = AuditEntry.objects.filter(action="tenants:cluster:refuse").order_by("pk")
    assert [entry.occurred_at for entry in entries] == [AT, AT + timedelta(hours=26)]
    assert {entry.facts["code"] for entry in entries} == {"credentials_forbidden"}


def test_the_bill_is_the_same_with_device_figures_and_without() -> None:
    source, worker = refusing()
    meter_hour(worker)
    without = list(MeteringWindow.objects.values()), list(UsageRecord.objects.values())

    source.refuses = False
    collect_due_devices(worker=worker, at=AT)

    assert UsageActivity.objects.count() == 1
    assert (list(MeteringWindow.objects.values()), list(UsageRecord.objects.values())) == without


def test_waste_and_credits_derive_once_the_devices_are_final() -> None:
    source, worker = refusing()
    meter_hour(worker)
    assert underived_windows(limit=10) == ()

    source.refuses = False
    collect_due_devices(worker=worker, at=AT)

    assert [one.start_at for one in underived_windows(limit=10)] == [HOUR]


def test_figures_that_no_source_gives_for_two_weeks_are_given_up_and_it_says_so() -> None:
    _, worker = refusing()
    meter_hour(worker)
    at = AT + RETENTION

    assert collect_due_devices(worker=worker, at=at) == DeviceSweep(unavailable=1)

    final = DeviceWindow.objects.get()
    assert (final.state, final.row_count, final.sealed_at) == ("unavailable", 0, at)
    assert final.last_error == "Prometheus answered with HTTP status 422."
    reported = MeteringException.objects.get(state=ExceptionState.OPEN)
    assert (reported.kind, reported.window_id, reported.held_unit_seconds) == (
        "devices_unavailable",
        final.window_id,
        0,
    )
    assert [one.start_at for one in underived_windows(limit=10)] == [HOUR]
    entry = AuditEntry.objects.get(action="metering:device_window:give_up")
    assert entry.facts["reason"] == final.last_error
    assert UsageRecord.objects.select_related("activity").get().activity is None
    assert collect_due_devices(worker=worker, at=at) == DeviceSweep()


def test_figures_of_an_hour_that_is_metered_weeks_later_are_not_given_up_at_once() -> None:
    source, worker = refusing()
    source.reason = "unreachable"
    Cluster.objects.update(metered_from=HOUR, metered_until=HOUR + timedelta(hours=1))
    late = AT + 2 * RETENTION
    meter_due(worker=worker, at=late)

    assert collect_due_devices(worker=worker, at=late) == DeviceSweep(retried=1)

    source.refuses = False
    later = late + timedelta(minutes=1)
    assert collect_due_devices(worker=worker, at=later) == DeviceSweep(sealed=1)
    assert not MeteringException.objects.filter(kind="devices_unavailable").exists()


def test_a_cluster_without_a_prometheus_has_no_devices_and_nobody_is_asked() -> None:
    source, worker = refusing()
    meter_hour(worker)
    Cluster.objects.update(is_watched=True, prometheus_url="")

    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep(unavailable=1)

    assert source.asked_devices == []
    assert DeviceWindow.objects.get().last_error.startswith("The cluster has no Prometheus")
    assert not MeteringException.objects.exists()


def test_one_bad_hour_stops_no_other_and_is_given_up_after_its_attempts() -> None:
    class Broken(RefusingSource):
        def observe_devices(
            self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
        ) -> DeviceFigures:
            if start_at == HOUR:
                raise KeyError("uuid")
            return super().observe_devices(target, start_at=start_at, end_at=end_at, as_of=as_of)

    source = Broken(refuses=False)
    worker = worker_of(source)
    later = AT + timedelta(hours=1)
    Cluster.objects.update(metered_from=HOUR)
    meter_due(worker=worker, at=later)

    assert collect_due_devices(worker=worker, at=later) == DeviceSweep(sealed=1, failed=1)

    for _ in range(DEFAULT_POLICY.attempts_max - 1):
        expire()
        assert collect_due_devices(worker=worker, at=later) == DeviceSweep(failed=1)
    expire()
    assert collect_due_devices(worker=worker, at=later) == DeviceSweep(unavailable=1)
    assert "ever reported back" in DeviceWindow.objects.get(window_start=HOUR).last_error


def expire() -> None:
    """Let every lease run out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE metering_devicewindow SET lease_until = clock_timestamp() - interval '1 s'"
            " WHERE state = 'collecting'"
        )


def test_a_worker_that_was_overtaken_writes_nothing() -> None:
    class Slow(RefusingSource):
        def observe_devices(
            self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
        ) -> DeviceFigures:
            DeviceWindow.objects.update(fence=99)
            return super().observe_devices(target, start_at=start_at, end_at=end_at, as_of=as_of)

    source = Slow({HOUR: observation(pod("uid-1"), devices=(device(),))}, refuses=False)
    worker = worker_of(source)
    meter_hour(worker)

    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep()

    assert not DeviceUsage.objects.exists()
    assert DeviceWindow.objects.get().state == "collecting"


def test_a_leased_hour_is_left_to_its_worker() -> None:
    source, worker = refusing()
    source.refuses = False
    meter_hour(worker)
    assert lease_devices(worker="other", at=AT) is not None

    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep()


def test_shared_devices_tell_nothing_of_a_pod() -> None:
    source = RefusingSource(
        {HOUR: observation(pod("uid-1", labels=SLICED_A100), devices=(device(),))}, refuses=False
    )
    worker = worker_of(source)
    meter_hour(worker)

    collect_due_devices(worker=worker, at=AT)

    activity = UsageRecord.objects.select_related("activity").get().activity
    assert activity is None or (activity.busy_ratio, activity.busy_coverage) == (None, None)


def test_statements_do_not_grow_with_devices() -> None:
    later = moment(3600)
    many = observation(
        *(pod(f"uid-{n}") for n in range(8)),
        devices=tuple(
            device(f"GPU-{n}", pod=f"pod-uid-{n}", begin_at=later, end_at=moment(7200))
            for n in range(8)
        ),
        start_at=later,
        end_at=moment(7200),
        ticks=ticks(start_at=later),
    )
    few = observation(pod("uid-1"), devices=(device(),))
    worker = worker_of(RefusingSource({HOUR: few, later: many}, refuses=False))
    for hour in (0, 1):
        Cluster.objects.update(metered_from=HOUR)
        meter_due(worker=worker, at=AT + timedelta(hours=hour))
    counts = []
    for _ in MeteringWindow.objects.filter(start_at__gte=HOUR):
        with CaptureQueriesContext(connection) as captured:
            collect_next(worker=worker, at=AT + timedelta(hours=2))
        counts.append(len(captured))

    assert DeviceUsage.objects.count() == 9
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    "broken",
    [
        device(busy_ratio=Decimal("NaN")),
        device(busy_ratio=Decimal("1.1")),
        device(energy_millijoules=-1),
        device(samples=-1),
    ],
)
def test_a_figure_that_cannot_be_believed_is_asked_for_again_and_the_bill_is_sealed(
    broken: DeviceObservation,
) -> None:
    source, worker = refusing(broken)
    source.refuses = False

    meter_due(worker=worker, at=AT)
    collect_due_devices(worker=worker, at=AT)

    assert MeteringWindow.objects.get().state == "sealed"
    assert UsageRecord.objects.count() == 1
    found = DeviceWindow.objects.get()
    assert (found.state, found.failures, DeviceUsage.objects.count()) == ("due", 1, 0)


def test_an_hour_that_a_worker_of_an_older_version_sealed_gets_its_device_figures(
    cluster: Cluster,
) -> None:
    _, worker = refusing()
    older = {"state": "sealed", "not_before": AT, "as_of": AT, "sealed_at": AT}
    sealed = MeteringWindow.objects.create(
        cluster=cluster, start_at=HOUR + timedelta(hours=1), **older
    )
    before = {**older, "sealed_at": AT - timedelta(days=4)}
    MeteringWindow.objects.create(cluster=cluster, start_at=HOUR - timedelta(hours=1), **before)
    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep()

    assert make_missing_due(at=AT) == 1
    assert make_missing_due(at=AT) == 0

    assert DeviceWindow.objects.values_list("window_id", "state").get() == (sealed.pk, "due")
    assert collect_due_devices(worker=worker, at=AT) == DeviceSweep(retried=1)

"""A month of device rows: archived with what they name, detached, verified and restored."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet
import pytest
from django.db import connection
from pytest_django import Settings
from rest_framework.test import APIClient

from billing.adapters.archive_files import read_rows
from config.management import archives
from embedded.postgres import OWNER, EmbeddedPostgres
from metering.models import DeviceUsage, DeviceWindow, MeteringWindow
from metering.selectors.devices.sharing import ReadableIntervals, device_sharing
from metering.selectors.devices.unbilled import unbilled_devices
from metering.selectors.devices.usage import project_devices
from metering.services.devices.leasing import LeasedDevices, seal_devices
from metering.services.efficiency.deriving import write_cluster_health
from tenants.domain.archives import ArchivedColumn, MonthArchivedError
from tenants.models import ArchivedMonth, Project
from tenants.selectors.people import user_named
from tests.support.builders import AT, MONTH_START
from tests.support.config.archives import LABEL, archive, move, refusal, signed_in
from tests.support.config.planted import refuses, verify
from tests.support.metering.device_rows import make_device_usage

FILES = {
    "device_coverages.parquet",
    "device_facts.parquet",
    "device_holders.parquet",
    "devices.parquet",
    "manifest.json",
    "windows.csv",
}


@pytest.fixture
def finished(world: None) -> None:  # noqa: ARG001 - Its month gets devices.
    """Measure an hour's devices and seal every hour of the month, with its waste."""
    windows = MeteringWindow.objects.order_by("pk")
    project = Project.objects.earliest("slug")
    for number, window in enumerate(windows):
        held: dict[str, Any] = {
            "attribution": "exclusive",
            "pod_uid": "uid-1",
            "pod_name": "train-0",
            "organization": project.organization,
            "project": project,
            "busy_ratio": Decimal("0.123456"),
            "busy_coverage": Decimal(1),
            "energy_millijoules": 3_600_000_000,
        }
        times = {"begin_at": window.start_at, "end_at": window.start_at + timedelta(hours=1)}
        if not number:
            make_device_usage(window, uuid="GPU-1", node="node-1", **times, **held)
            seen = {"busy_coverage": Decimal(1), "sm_active_coverage": Decimal(1)}
            idle = {"attribution": "idle", **seen, **times}
            make_device_usage(window, uuid="GPU-2", node="node-1", **idle)
        DeviceWindow.objects.get_or_create(
            window=window,
            defaults={
                "window_start": window.start_at,
                "cluster": window.cluster,
                "not_before": AT,
            },
        )
        leased = LeasedDevices(id=window.pk, hour=Hours(window), fence=0, attempt=0, failures=0)  # type: ignore[arg-type]
        seal_devices(leased, state="sealed", at=AT)
        write_cluster_health(window_id=window.pk, at=AT)


class Hours:
    """The hour of a window, as a lease has it."""

    def __init__(self, window: MeteringWindow) -> None:
        self.start_at = window.start_at
        self.target = window.cluster


@pytest.fixture
def owner_url(postgres: EmbeddedPostgres, committed_db: str) -> str:
    return postgres.url(role=OWNER, database=committed_db)


@pytest.fixture
def folder(tmp_path: Path, finished: None) -> Path:  # noqa: ARG001 - A finished month.
    """Return the archive of the month."""
    archive(tmp_path, "devices")
    return tmp_path / f"devices-{LABEL}"


def device_rows() -> list[Any]:
    """Return every row with what it names."""
    return list(DeviceUsage.objects.order_by("pk").values())


def test_a_month_of_devices_is_archived_detached_verified_and_restored(
    folder: Path, tmp_path: Path, owner_url: str
) -> None:
    before = device_rows()
    assert len(before) == 2
    assert {path.name for path in folder.iterdir()} == FILES
    holders = pyarrow.parquet.read_table(folder / "device_holders.parquet").to_pylist()
    assert sorted(row["pod_name"] for row in holders) == ["", "train-0"]

    with signed_in(owner_url):
        assert "2 rows are in" in move("detach_month", tmp_path, "devices")

    assert device_rows() == []
    assert verify("--archive", str(tmp_path)) == ""
    ensuring = f"SELECT metering_ensure_device_partition('{MONTH_START}')"
    refuses(ensuring, "the device figures of 2026-10 are archived")

    with signed_in(owner_url):
        assert "The devices of 2026-10 are archived" in refusal("detach_month", tmp_path, "devices")
        assert "2 rows are in the database again" in move("restore_month", tmp_path, "devices")

    assert device_rows() == before
    assert ArchivedMonth.objects.get().restored_by == "frank"
    assert verify("--archive", str(tmp_path)) == ""
    refuses("DELETE FROM metering_devicefigure", "its device figures are sealed")
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('metering_devicefigure_2026_10_id') IS NOT NULL")
        assert cursor.fetchone() == (True,)


def test_readers_of_a_detached_month_are_refused(
    folder: Path,  # noqa: ARG001 - It is archived.
    tmp_path: Path,
    owner_url: str,
) -> None:
    with signed_in(owner_url):
        move("detach_month", tmp_path, "devices")
    span: dict[str, Any] = {"begin_at": MONTH_START, "end_at": AT}
    everything = ReadableIntervals(None)

    readers: list[Callable[[], object]] = [
        lambda: project_devices(**span),
        lambda: unbilled_devices(**span, limit=1),
        lambda: device_sharing(**span, reach=everything, limit=1),
    ]
    for read in readers:
        with pytest.raises(MonthArchivedError, match="The devices of 2026-10 are archived"):
            read()
    client = APIClient()
    client.force_authenticate(user_named("frank"))
    answer = client.get("/api/v1/device-usage/", {"window_start_from": MONTH_START.isoformat()})
    assert (answer.status_code, answer.json()["code"]) == (409, "month_archived")


@pytest.mark.parametrize("name", sorted(FILES - {"manifest.json", "windows.csv"}))
def test_an_altered_file_is_named_and_nothing_is_detached_or_restored(
    name: str, folder: Path, tmp_path: Path, owner_url: str
) -> None:
    content = (folder / name).read_bytes()
    altered = content[:-9] + b"x" + content[-8:]
    before = device_rows()

    (folder / name).write_bytes(altered)
    with signed_in(owner_url):
        assert name in refusal("detach_month", tmp_path, "devices")
    assert device_rows() == before
    (folder / name).write_bytes(content)
    with signed_in(owner_url):
        move("detach_month", tmp_path, "devices")
    (folder / name).write_bytes(altered)

    with signed_in(owner_url):
        assert name in refusal("restore_month", tmp_path, "devices")
    assert device_rows() == []
    assert name in verify("--archive", str(tmp_path))


@pytest.mark.usefixtures("folder")
def test_facts_that_differ_from_the_archive_stop_detaching(
    tmp_path: Path, owner: psycopg.Connection, owner_url: str
) -> None:
    owner.execute("ALTER TABLE metering_deviceholder DISABLE TRIGGER USER")
    owner.execute("UPDATE metering_deviceholder SET owner = 'eve' WHERE pod_uid <> ''")

    with signed_in(owner_url):
        assert "device_holders.parquet differs" in refusal("detach_month", tmp_path, "devices")

    assert not ArchivedMonth.objects.exists()


@pytest.mark.usefixtures("finished")
def test_a_month_whose_waste_is_not_derived_is_not_archived(
    tmp_path: Path, owner: psycopg.Connection
) -> None:
    owner.execute("DELETE FROM metering_clusterhealth")

    assert "2 hours whose waste is not derived" in refusal("archive_month", tmp_path, "devices")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("finished")
@pytest.mark.parametrize(("thresholds", "days"), [({}, 7), ({"oversized_hours": 744}, 31)])
def test_device_rows_stay_for_as_long_as_any_rule_of_waste_looks_back(
    thresholds: dict[str, int],
    days: int,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.WASTE_THRESHOLDS = thresholds
    last_at = MONTH_START + timedelta(days=31 + days)
    monkeypatch.setattr(archives, "database_now", lambda: last_at - timedelta(seconds=1))

    refused = refusal("archive_month", tmp_path, "devices")

    assert "is not finished: 1 days whose waste is derived from the month" in refused
    monkeypatch.setattr(archives, "database_now", lambda: last_at)
    assert "2 rows" in archive(tmp_path, "devices")


@pytest.mark.usefixtures("folder")
def test_a_file_that_is_replaced_after_its_digest_was_compared_is_not_restored(
    tmp_path: Path, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with signed_in(owner_url):
        move("detach_month", tmp_path, "devices")

    def read_another(path: Path, columns: Sequence[ArchivedColumn]) -> Iterator[bytes]:
        table = pyarrow.parquet.read_table(path)
        position = table.schema.get_field_index("coverage_id")
        swapped = table.column(position).take([1, 0])
        another = table.set_column(position, table.schema.field(position), swapped)
        pyarrow.parquet.write_table(another, path)
        return read_rows(path, columns)

    monkeypatch.setattr(archives, "read_rows", read_another)

    with signed_in(owner_url):
        assert "devices.parquet was altered" in refusal("restore_month", tmp_path, "devices")

    assert device_rows() == []
    assert ArchivedMonth.objects.get().restored_at is None

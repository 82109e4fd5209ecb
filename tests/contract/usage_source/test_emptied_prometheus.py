"""A Prometheus whose data is gone for an hour and then restored: no hour is sealed at zero."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from embedded.programs import end_stale
from embedded.prometheus import EmbeddedPrometheus
from embedded.prometheus_programs import find_prometheus
from metering.models import MeteringException, UsageRecord
from metering.services.collection.sweeping import meter_due
from tests.support.usage_source.hostile_pods import HOUR, Metered, metered, openmetrics, sound

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[3]
SETUP = sound("emptied")


@pytest.fixture
def server() -> Iterator[EmbeddedPrometheus]:
    """Run a real Prometheus that holds three hours of one pod."""
    programs = find_prometheus(ROOT / ".tools")
    if programs.folder is None:
        if os.environ.get("CI") == "true":
            pytest.fail(programs.reason)
        pytest.skip(programs.reason)
    folder = Path(tempfile.mkdtemp(prefix="gpu-ledger-test-"))
    folder.chmod(0o755)
    made = EmbeddedPrometheus(folder / "prometheus", programs=programs.folder)
    try:
        text = made.folder / "history.txt"
        text.write_text(openmetrics([SETUP]), encoding="utf-8")
        made.account.own(text)
        made.import_openmetrics(text, name="history")
        made.start()
        yield made
    finally:
        made.stop()
        end_stale(folder)
        shutil.rmtree(folder)


def exchange(server: EmbeddedPrometheus, *, away: Path, back: Path | None) -> None:
    """Take the data of a server away and give it other data, or none; its address stays."""
    port = server.port
    server.stop()
    server.data.rename(away)
    if back is not None:
        back.rename(server.data)
    again = EmbeddedPrometheus(server.folder, programs=server._binaries, port=port)  # noqa: SLF001 - The same server.
    again.start()
    server.process = again.process


def test_an_emptied_prometheus_seals_no_hour_and_a_restored_one_catches_up(
    server: EmbeddedPrometheus,
) -> None:
    cluster = metered(SETUP, server.url())
    cluster.meter(hours=1)
    assert cluster.states() == ["sealed"]
    kept, emptied = server.folder / "kept", server.folder / "emptied"

    exchange(server, away=kept, back=None)
    for minutes in range(0, 60, 5):
        sweep_at(cluster, HOUR + timedelta(hours=2, minutes=15 + minutes))

    assert cluster.states()[0] == "sealed"
    assert "sealed" not in cluster.states()[1:]
    assert cluster.billed() == {"good": 3600}

    exchange(server, away=emptied, back=kept)
    for minutes in range(0, 60, 5):
        sweep_at(cluster, HOUR + timedelta(hours=3, minutes=15 + minutes))

    assert cluster.states()[:3] == ["sealed"] * 3
    assert cluster.billed() == {"good": 3 * 3600}
    assert UsageRecord.objects.count() == 3
    assert not MeteringException.objects.filter(state="open").exists()


def sweep_at(cluster: Metered, at: datetime) -> None:
    """Meter what is due at a moment."""
    meter_due(worker=cluster.worker, at=at)

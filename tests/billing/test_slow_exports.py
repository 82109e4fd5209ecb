"""A destination that takes longer than the lease of a run, and than most tasks may."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from threading import Event
from typing import ClassVar

import pytest

from billing.models import ExportRun, ExportSchedule
from billing.protocols import OutgoingFile
from billing.services.exports.running import lease_run
from billing.tasks import export_due, tick_exports
from simulator.adapters.export_destination import SimulatedDestination
from tenants.selectors.clock import database_now
from tests.support.billing.ledger import TICK
from tests.support.threads import in_thread

pytestmark = pytest.mark.usefixtures("committed_db")


@pytest.fixture(autouse=True)
def nothing_delivered() -> Iterator[None]:
    SimulatedDestination.purge()
    yield
    SimulatedDestination.purge()


class SlowDestination(SimulatedDestination):
    """Takes longer for a file than the lease of its run."""

    leases: ClassVar[list[object]] = []

    def deliver(self, file: OutgoingFile) -> None:
        """Let the lease end, wait until it is renewed, and let another worker try meanwhile."""
        is_open = ExportRun.objects.filter(pk=file.run_id, state="delivering")
        is_open.update(next_at=long_ago())
        for _ in range(500):
            if is_open.filter(next_at__gt=database_now()).exists():
                break
            Event().wait(0.02)
        self.leases.append(in_thread(lambda: lease_run(actor=TICK, at=database_now())))
        super().deliver(file)


def long_ago() -> datetime:
    return database_now() - timedelta(days=40)


@pytest.mark.parametrize("how", ["task", "command"])
def test_a_slow_destination_keeps_its_run_until_it_has_every_file(
    how: str, monkeypatch: pytest.MonkeyPatch, settings: object
) -> None:
    monkeypatch.setattr("tenants.services.slot_leases.RENEW_SECONDS", 0.02)
    SlowDestination.leases.clear()
    destination = {"bucket": {"BACKEND": f"{__name__}.SlowDestination"}}
    settings.EXPORT_DESTINATIONS = destination  # type: ignore[attr-defined]
    ExportSchedule.objects.create(
        slug="slow",
        contents=["lines", "documents"],
        target="bucket",
        address="https://s3.example.com/ledger",
        waits_for_close=False,
        created_at=long_ago(),
    )

    if how == "task":
        tick_exports()
    else:
        export_due(at=database_now(), actor=TICK)

    runs = list(ExportRun.objects.values_list("state", "fence", "attempts"))
    assert runs == [("done", 1, 0)] * len(runs) != []
    assert SlowDestination.leases == [None] * 2 * len(runs)

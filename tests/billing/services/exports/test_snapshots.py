"""The files of a run are of one snapshot, and a run is staged by one of two workers."""

from collections.abc import Iterator, Sequence

import pytest

from billing.adapters.focus_files import ENCODERS, to_csv
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.domain.exports.focus import FocusColumn, FocusFormat
from billing.models import ExportChunk, ExportFile, ExportRun
from billing.selectors.exports.runs import chunks_of
from billing.services.exports.running import ExportWorker, advance_run, lease_run, open_due_runs
from billing.services.exports.staging import StagingTools
from simulator.adapters.export_destination import SimulatedDestination
from tenants.models import Organization
from tests.billing.services.exports.test_runs import DUE_AT, make_schedule
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import TICK, month_of_use
from tests.support.threads import in_thread

pytestmark = pytest.mark.usefixtures("committed_db")
FILES = [
    "focus-1.2-CostAndUsage-csv",
    "focus-1.4-CostAndUsage-csv",
    "focus-1.4-CostAndUsage-parquet",
]


def worker_with(encode: object) -> ExportWorker:
    encoders = {**ENCODERS, FocusFormat.CSV: encode}
    return ExportWorker(
        tools=StagingTools(makers=BUNDLE_MAKERS, encoders=encoders, issuer="GPU Platform"),  # type: ignore[arg-type]
        destinations={"bucket": SimulatedDestination()},
        has_time=lambda: True,
        clock=lambda: DUE_AT,
        actor=TICK,
    )


def test_what_changes_while_files_are_made_is_in_none_of_them() -> None:
    finalize(draft(month_of_use([("llm", 3600)]).organization, "2026-10"))
    make_schedule(contents=FILES)
    open_due_runs(actor=TICK, at=DUE_AT)
    leased = lease_run(actor=TICK, at=DUE_AT)
    assert leased is not None

    def rename_meanwhile(
        blocks: Iterator[bytes], columns: Sequence[FocusColumn]
    ) -> Iterator[bytes]:
        in_thread(lambda: Organization.objects.update(name="Renamed"))
        return to_csv(blocks, columns)

    done = advance_run(leased, worker=worker_with(rename_meanwhile))

    made = {file.content: b"".join(chunks_of(file)) for file in ExportFile.objects.all()}
    SimulatedDestination.purge()
    assert done is True
    assert Organization.objects.get().name == "Renamed"
    assert [b"Acme" in made[name] for name in FILES] == [True, True, True]
    assert not any(b"Renamed" in content for content in made.values())


def test_a_worker_that_dies_while_files_are_made_leaves_none() -> None:
    finalize(draft(month_of_use([("llm", 3600)]).organization, "2026-10"))
    make_schedule(contents=["lines", *FILES])
    open_due_runs(actor=TICK, at=DUE_AT)
    leased = lease_run(actor=TICK, at=DUE_AT)
    assert leased is not None

    def die(*_: object) -> Iterator[bytes]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        advance_run(leased, worker=worker_with(die))

    assert (ExportFile.objects.count(), ExportChunk.objects.count()) == (0, 0)
    assert ExportRun.objects.get().state == "pending"

"""`reconcile_export --run` names every file of a run that is not as made, or as the ledger."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from billing.models import ExportChunk, ExportFile, ExportRun
from billing.services.exports.running import open_due_runs
from simulator.adapters.export_destination import SimulatedDestination
from tests.billing.services.exports.test_runs import DUE_AT, advance, make_schedule
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import TICK, month_of_use

pytestmark = pytest.mark.django_db
CONTENTS = ["month", "focus-1.2-CostAndUsage-csv", "focus-1.4-CostAndUsage-parquet", "lines"]


@pytest.fixture
def run() -> ExportRun:
    """October of two organizations, exported."""
    for slug in ("acme", "umbrella"):
        finalize(draft(month_of_use([("llm", 1001)], slug).organization, "2026-10"))
    make_schedule(contents=CONTENTS)
    open_due_runs(actor=TICK, at=DUE_AT)
    assert advance() is True
    SimulatedDestination.purge()
    return ExportRun.objects.get()


def reconciled(run: ExportRun) -> tuple[list[str], str]:
    """Return what the command prints, and how it ends."""
    out = StringIO()
    try:
        call_command("reconcile_export", run=str(run.pk), stdout=out)
    except CommandError as error:
        return out.getvalue().splitlines(), str(error)
    return out.getvalue().splitlines(), ""


def test_files_of_every_kind_agree_with_the_ledger(run: ExportRun) -> None:
    assert reconciled(run) == (
        [
            "gpu-ledger-2026-10.zip: 2 documents, no differences.",
            "focus-1.2-CostAndUsage-2026-10.csv: 2 documents, no differences.",
            "focus-1.4-CostAndUsage-2026-10.parquet: 2 documents, no differences.",
        ],
        "",
    )


@pytest.mark.parametrize("content", CONTENTS)
def test_a_byte_that_was_changed_is_named(run: ExportRun, content: str) -> None:
    file = ExportFile.objects.get(content=content)
    chunk = ExportChunk.objects.filter(file=file).latest("position")
    stored = bytearray(chunk.content)
    stored[len(stored) // 2] ^= 1
    ExportChunk.objects.filter(pk=chunk.pk).update(content=bytes(stored))

    lines, ending = reconciled(run)

    named = [line for line in lines if line.startswith(f"{file.name}: sha256 is ")]
    assert (len(named), ending) == (1, "1 difference.")


def test_a_document_that_is_newer_than_the_run_is_named_in_each_file(run: ExportRun) -> None:
    late = finalize(draft(month_of_use([("llm", 3600)], "late").organization, "2026-10"))

    lines, ending = reconciled(run)

    assert lines.count(f"{late.reference}: sum of costs is 0, not {late.payable}.") == 2
    assert ending == "2 differences."


def test_a_run_whose_files_were_deleted_is_refused(run: ExportRun) -> None:
    ExportRun.objects.update(purged_at=DUE_AT)

    lines, ending = reconciled(run)

    assert lines == []
    assert ending == "The content of this file was deleted. Export the month anew."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Give a file, or --run with the id of a run."),
        ({"path": "x.zip", "run": "1"}, "Give a file, or --run with the id of a run."),
        ({"run": "october"}, "That is no id of a run."),
    ],
)
def test_what_is_asked_for_wrongly_is_refused(arguments: dict[str, str], message: str) -> None:
    paths = [arguments.pop("path")] if "path" in arguments else []

    with pytest.raises(CommandError, match=message):
        call_command("reconcile_export", *paths, **arguments)

"""Scheduled exports: due once, made of one snapshot, delivered once under one name, resumed."""

import hashlib
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.core.management import call_command

from billing.adapters.focus_files import ENCODERS
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.domain.exports.errors import ExportRunNotFailedError
from billing.domain.exports.schedules import ATTEMPTS_MAX
from billing.models import BillingPeriod, ExportChunk, ExportFile, ExportRun, ExportSchedule
from billing.services.exports.running import (
    ExportWorker,
    LeasedRun,
    advance_run,
    lease_run,
    open_due_runs,
)
from billing.services.exports.schedules import request_run, retry_run
from billing.services.exports.staging import StagingTools, purge_contents
from simulator.adapters.export_destination import SimulatedDestination
from tenants.domain.identity.roles import Role
from tenants.models import AuditEntry, NotificationDelivery, Organization
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import TICK, month_of_use
from tests.support.builders import grant, make_user
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
MADE_AT = datetime(2026, 10, 20, tzinfo=UTC)
DUE_AT = datetime(2026, 11, 2, 6, tzinfo=UTC)
FOCUS = "focus-1.2-CostAndUsage-csv"
NAMES = ["gpu-ledger-2026-10.zip", "focus-1.2-CostAndUsage-2026-10.csv", "lines-2026-10.csv"]


@pytest.fixture(autouse=True)
def nothing_delivered() -> Iterator[None]:
    SimulatedDestination.purge()
    yield
    SimulatedDestination.purge()


@shared_rows
def acme() -> Organization:
    """October of Acme, closed with an invoice."""
    organization = month_of_use([("llm", 3600)]).organization
    finalize(draft(organization, "2026-10"))
    return organization


def make_schedule(**fields: object) -> ExportSchedule:
    given: dict[str, object] = {
        "slug": "erp",
        "contents": ["month", FOCUS, "lines"],
        "target": "bucket",
        "address": "https://s3.example.com/ledger",
        "secret_reference": "env:EXPORT_SECRET_ERP",
        "created_at": MADE_AT,
    }
    return ExportSchedule.objects.create(**given | fields)


def worker(at: datetime = DUE_AT, *, steps: int = 100, destination: object = None) -> ExportWorker:
    left = iter(range(steps))
    return ExportWorker(
        tools=StagingTools(makers=BUNDLE_MAKERS, encoders=ENCODERS, issuer="GPU Platform"),
        destinations={"bucket": destination or SimulatedDestination()},  # type: ignore[dict-item]
        has_time=lambda: next(left, None) is not None,
        clock=lambda: at,
        actor=TICK,
    )


def advance(at: datetime = DUE_AT, **how: Any) -> bool | None:  # noqa: ANN401 - As `worker`.
    leased = lease_run(actor=TICK, at=at)
    return None if leased is None else advance_run(leased, worker=worker(at, **how))


@pytest.mark.usefixtures("acme")
def test_a_run_is_opened_once_on_its_day_and_its_files_agree() -> None:
    make_schedule()

    opened = [
        open_due_runs(actor=TICK, at=at)
        for at in (DUE_AT - timedelta(seconds=1), DUE_AT, DUE_AT + timedelta(days=3))
    ]
    done = [advance(), advance()]

    run = ExportRun.objects.get()
    files = {file.name: file for file in run.files.all()}
    assert opened == [0, 1, 0]
    assert done == [True, None]
    assert (run.month, run.state, run.staged_at, run.finished_at) == (
        "2026-10",
        "done",
        DUE_AT,
        DUE_AT,
    )
    assert SimulatedDestination.attempts == NAMES
    for name, content in SimulatedDestination.delivered.items():
        assert files[name].sha256 == hashlib.sha256(content).hexdigest()
        assert files[name].size == len(content)
    with zipfile.ZipFile(BytesIO(SimulatedDestination.delivered[NAMES[0]])) as bundle:
        assert bundle.read("lines.csv") == SimulatedDestination.delivered[NAMES[2]]
        assert "journal.csv" in bundle.namelist()
        assert len([name for name in bundle.namelist() if name.startswith("pdf/")]) == 1
    actions = AuditEntry.objects.filter(object_kind="export_run").values_list("action", flat=True)
    assert list(actions.order_by("pk")) == [
        "billing:export_run:open",
        "billing:export_run:stage",
        "billing:export_run:finish",
    ]


@pytest.mark.usefixtures("acme")
def test_a_run_is_reconciled_with_the_ledger_by_a_command() -> None:
    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)
    advance()

    call_command(
        "reconcile_export", run=str(ExportRun.objects.get().pk), stdout=(out := StringIO())
    )

    assert out.getvalue() == (
        "gpu-ledger-2026-10.zip: 1 documents, no differences.\n"
        "focus-1.2-CostAndUsage-2026-10.csv: 1 documents, no differences.\n"
    )


def test_a_schedule_of_one_organization_delivers_no_journal(acme: Organization) -> None:
    month_of_use([("llm", 1800)], "umbrella")
    make_schedule(organization=acme, contents=["month"])
    open_due_runs(actor=TICK, at=DUE_AT)

    advance()

    (name,) = SimulatedDestination.delivered
    with zipfile.ZipFile(BytesIO(SimulatedDestination.delivered[name])) as bundle:
        assert "journal.csv" not in bundle.namelist()
        assert b"umbrella" not in bundle.read("manifest.json")
    assert name == "gpu-ledger-acme-2026-10.zip"


@pytest.mark.usefixtures("acme")
def test_a_run_that_dies_goes_on_with_the_same_bytes_and_names() -> None:
    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)
    first = lease_run(actor=TICK, at=DUE_AT)
    assert first is not None
    advance_run(first, worker=worker(steps=2))
    before = dict(SimulatedDestination.delivered)
    digests = dict(ExportFile.objects.values_list("name", "sha256"))
    finalize(draft(month_of_use([("llm", 1800)], "late").organization, "2026-10"))

    done = advance(DUE_AT + timedelta(minutes=6))

    assert len(before) == 1
    assert done is True
    assert SimulatedDestination.attempts == NAMES
    assert digests == {
        name: hashlib.sha256(content).hexdigest()
        for name, content in SimulatedDestination.delivered.items()
    }


@pytest.mark.usefixtures("acme")
def test_a_worker_that_lost_its_lease_marks_nothing() -> None:
    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)
    late = lease_run(actor=TICK, at=DUE_AT)
    assert late is not None
    second = lease_run(actor=TICK, at=DUE_AT + timedelta(minutes=6))

    is_done = advance_run(late, worker=worker())

    run = ExportRun.objects.get()
    assert second == LeasedRun(run.pk, late.fence + 1)
    assert is_done is False
    assert (run.state, run.files.count()) == ("pending", 0)


@pytest.mark.usefixtures("acme")
def test_a_failure_keeps_what_was_delivered_and_waits_with_its_remedy() -> None:
    grant(make_user("dora"), Role.FINANCE_ADMIN)
    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)
    SimulatedDestination.failing.add(NAMES[1])

    at = DUE_AT
    for _ in range(ATTEMPTS_MAX):
        advance(at)
        at += timedelta(days=1)

    run = ExportRun.objects.get()
    assert (run.state, run.attempts, run.reason) == ("failed", ATTEMPTS_MAX, "unreachable")
    assert run.remedy == "Check that the server runs and can be reached from the workers."
    assert SimulatedDestination.attempts.count(NAMES[0]) == 1
    assert BillingPeriod.objects.get(label="2026-10").state == "closed"
    delivery = NotificationDelivery.objects.get(notification__event="billing:export:failed")
    assert delivery.address == "dora@example.test"

    SimulatedDestination.failing.clear()
    retry_run(run=run, actor=TICK, at=at)
    advance(at)

    assert ExportRun.objects.get().state == "done"
    assert SimulatedDestination.attempts.count(NAMES[0]) == 1
    with pytest.raises(ExportRunNotFailedError):
        retry_run(run=run, actor=TICK, at=at)


def test_a_run_waits_for_its_months_to_close() -> None:
    organization = month_of_use([("llm", 3600)]).organization
    invoice = draft(organization, "2026-10")
    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)

    waiting = advance()
    note = ExportRun.objects.get().note
    finalize(invoice)
    done = [advance(), advance(DUE_AT + timedelta(hours=1))]

    assert waiting is False
    assert note == "It waits: 1 billing period of 2026-10 to close."
    assert done == [None, True]


@pytest.mark.usefixtures("acme")
def test_a_second_run_of_a_month_never_takes_the_names_of_the_first() -> None:
    schedule = make_schedule(contents=["month"])
    open_due_runs(actor=TICK, at=DUE_AT)
    advance()

    request_run(schedule=schedule, month="2026-10", actor=TICK, at=DUE_AT)
    advance()

    assert list(SimulatedDestination.delivered) == [NAMES[0], "gpu-ledger-2026-10-run2.zip"]


@pytest.mark.usefixtures("acme")
def test_a_task_whose_time_is_up_is_a_counted_attempt() -> None:
    class Slow:
        def deliver(self, file: object) -> None:
            del file
            raise SoftTimeLimitExceeded

    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)

    with pytest.raises(SoftTimeLimitExceeded):
        advance(destination=Slow())

    run = ExportRun.objects.get()
    assert (run.state, run.attempts, run.reason) == ("delivering", 1, "time_exceeded")
    assert "manage.py tick" in run.remedy


@pytest.mark.usefixtures("acme")
def test_contents_are_deleted_after_their_time_and_their_digests_stay() -> None:
    make_schedule()
    open_due_runs(actor=TICK, at=DUE_AT)
    advance()
    kept = timedelta(days=30)

    purged = [
        purge_contents(kept=kept, actor=TICK, at=at)
        for at in (DUE_AT + timedelta(days=29), DUE_AT + kept, DUE_AT + timedelta(days=60))
    ]

    assert purged == [0, 1, 0]
    assert not ExportChunk.objects.exists()
    assert ExportFile.objects.exclude(sha256="").count() == 3

"""The tasks of scheduled exports: everything that is due, in slices or at once."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from billing.domain.exports.schedules import LEASE
from billing.models import ExportRun, ExportSchedule
from billing.services.exports.running import LeasedRun, lease_run, open_due_runs, renew_lease
from billing.tasks import export_due, tick_exports
from billing.tasks.exports import TIME_LIMIT_SECONDS
from simulator.adapters.export_destination import SimulatedDestination
from tenants.selectors.clock import database_now
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import TICK, month_of_use
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
DUE_AT = datetime(2026, 11, 2, 6, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_delivered() -> Iterator[None]:
    SimulatedDestination.purge()
    yield
    SimulatedDestination.purge()


@shared_rows
def schedules() -> list[ExportSchedule]:
    """Two schedules over a closed October."""
    finalize(draft(month_of_use([("llm", 3600)]).organization, "2026-10"))
    return [
        ExportSchedule.objects.create(
            slug=slug,
            contents=["lines", "documents"],
            target=target,
            address="https://s3.example.com/ledger",
            created_at=DUE_AT - timedelta(days=9),
        )
        for slug, target in (("first", "bucket"), ("second", "sftp"))
    ]


@pytest.mark.usefixtures("schedules")
def test_everything_due_is_exported_at_once_and_once() -> None:
    done = [export_due(at=DUE_AT, actor=TICK) for _ in range(2)]

    assert done == [2, 0]
    assert sorted(SimulatedDestination.attempts) == [
        "documents-2026-10.csv",
        "documents-2026-10.csv",
        "lines-2026-10.csv",
        "lines-2026-10.csv",
    ]
    assert set(ExportRun.objects.values_list("state", flat=True)) == {"done"}


@pytest.mark.usefixtures("schedules")
def test_one_failing_destination_holds_up_no_other_run() -> None:
    SimulatedDestination.failing.add("lines-2026-10.csv")
    ExportSchedule.objects.filter(slug="second").update(contents=["documents"])

    done = export_due(at=DUE_AT, actor=TICK)

    states = dict(ExportRun.objects.values_list("schedule__slug", "state"))
    assert done == 1
    assert states == {"first": "delivering", "second": "done"}


def test_a_target_that_is_not_set_up_waits_with_its_remedy(
    schedules: list[ExportSchedule], settings: object
) -> None:
    settings.EXPORT_DESTINATIONS = {}  # type: ignore[attr-defined]
    ExportSchedule.objects.filter(pk=schedules[1].pk).update(target="mail")

    export_due(at=DUE_AT, actor=TICK)

    run = ExportRun.objects.get(schedule=schedules[1])
    assert (run.state, run.reason) == ("delivering", "mail_missing")
    assert run.remedy == "Set EMAIL_URL, and restart the workers."


@pytest.mark.usefixtures("schedules")
def test_a_mistake_in_one_run_is_counted_and_stops_no_other() -> None:
    ExportSchedule.objects.filter(slug="first").update(contents=["nonsense-a-b-c"])

    done = export_due(at=DUE_AT, actor=TICK)

    first, second = ExportRun.objects.order_by("schedule__slug")
    assert done == 1
    assert (first.state, first.reason, first.attempts) == ("pending", "unexpected", 1)
    assert second.state == "done"


@pytest.mark.usefixtures("schedules")
def test_the_task_does_run_after_run() -> None:
    long_ago = database_now() - timedelta(days=400)
    ExportSchedule.objects.update(created_at=long_ago, waits_for_close=False)

    tick_exports()

    runs = ExportRun.objects.all()
    assert runs.count() == 24
    assert {run.state for run in runs} == {"done"}


def test_a_long_step_has_hours_and_no_message_that_is_given_out_again() -> None:
    assert tick_exports.acks_late is False
    assert tick_exports.soft_time_limit == TIME_LIMIT_SECONDS < tick_exports.time_limit


def test_a_lease_that_another_worker_has_is_not_renewed(schedules: list[ExportSchedule]) -> None:
    export_due(at=DUE_AT - timedelta(days=1), actor=TICK)
    open_due_runs(actor=TICK, at=DUE_AT)
    first = lease_run(actor=TICK, at=DUE_AT)
    assert first is not None
    ExportRun.objects.filter(pk=first.run_id).update(next_at=DUE_AT - timedelta(days=1))
    second = lease_run(actor=TICK, at=DUE_AT)
    assert second == LeasedRun(first.run_id, first.fence + 1)

    assert renew_lease(first, at=DUE_AT) is False
    assert renew_lease(second, at=DUE_AT + timedelta(hours=1)) is True

    run = ExportRun.objects.get(pk=first.run_id)
    assert (run.fence, run.next_at) == (2, DUE_AT + timedelta(hours=1) + LEASE)
    assert len(schedules) == 2

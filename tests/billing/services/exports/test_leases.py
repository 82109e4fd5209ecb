"""Two workers at once never do one run, and a run that fails lets the others go first."""

from datetime import timedelta

import pytest
from django.db import transaction

from billing.domain.exports.schedules import LEASE
from billing.models import ExportRun
from billing.services.exports.running import LeasedRun, lease_run, open_due_runs
from tests.billing.services.exports.test_runs import DUE_AT, make_schedule
from tests.support.billing.ledger import TICK
from tests.support.threads import in_thread


def lease(seconds: int = 0) -> LeasedRun | None:
    return lease_run(actor=TICK, at=DUE_AT + timedelta(seconds=seconds))


def open_runs(*slugs: str) -> dict[str, ExportRun]:
    for slug in slugs:
        make_schedule(slug=slug)
    open_due_runs(actor=TICK, at=DUE_AT)
    return {run.schedule.slug: run for run in ExportRun.objects.select_related("schedule")}


@pytest.mark.usefixtures("committed_db")
def test_a_run_that_another_worker_is_leasing_is_skipped() -> None:
    open_runs("first", "second")

    with transaction.atomic():
        ours = lease()
        theirs = in_thread(lease)
        nothing = in_thread(lease)

    assert ours is not None
    assert theirs is not None
    assert ours.run_id != theirs.run_id
    assert nothing is None


@pytest.mark.usefixtures("committed_db")
def test_two_workers_that_open_what_is_due_open_it_once() -> None:
    make_schedule()

    with transaction.atomic():
        ours = open_due_runs(actor=TICK, at=DUE_AT)
    theirs = in_thread(lambda: open_due_runs(actor=TICK, at=DUE_AT))

    assert (ours, theirs, ExportRun.objects.count()) == (1, 0, 1)


@pytest.mark.django_db
def test_a_lease_ends_and_the_next_one_has_another_fence() -> None:
    (run,) = open_runs("only").values()
    first = lease()

    during = lease(int(LEASE.total_seconds()) - 1)
    after = lease(int(LEASE.total_seconds()))

    assert first == LeasedRun(run.pk, 1)
    assert during is None
    assert after == LeasedRun(run.pk, 2)


@pytest.mark.django_db
def test_the_run_that_is_due_longest_is_first() -> None:
    runs = open_runs("early", "late")
    ExportRun.objects.filter(pk=runs["late"].pk).update(next_at=DUE_AT - timedelta(hours=1))
    ExportRun.objects.filter(pk=runs["early"].pk).update(next_at=DUE_AT - timedelta(hours=2))

    leased = [lease(), lease(), lease()]

    assert [one and one.run_id for one in leased] == [runs["early"].pk, runs["late"].pk, None]


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["done", "failed"])
def test_what_has_ended_is_not_leased(state: str) -> None:
    open_runs("only")
    ExportRun.objects.update(state=state, staged_at=DUE_AT, finished_at=DUE_AT)

    assert lease() is None

"""Every call of scheduled exports: who does it, how, and the entries it leaves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from billing.adapters.focus_files import ENCODERS
from billing.adapters.month_bundle import BUNDLE_MAKERS
from billing.models import ExportRun, ExportSchedule
from billing.services.exports import running, schedules, staging
from tenants.domain.actors import Actor
from tenants.selectors.actors import actor_of_user
from tests.support.builders import AT
from tests.support.flows.estate import Estate

Does = Callable[[Estate, Any], object]


def dora(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.dora)


def schedule(estate: Estate) -> ExportSchedule:
    return ExportSchedule.objects.get(pk=estate.places["own"]["export-schedules"])


def run(estate: Estate) -> ExportRun:
    return ExportRun.objects.get(pk=estate.places["own"]["export-runs"])


def stage(estate: Estate, who: Any) -> None:  # noqa: ANN401 - Keyword arguments of any service.
    tools = staging.StagingTools(makers=BUNDLE_MAKERS, encoders=ENCODERS, issuer="GPU Platform")
    ExportSchedule.objects.update(contents=["lines"])
    pending = ExportRun.objects.create(
        schedule=schedule(estate), month="2026-08", next_at=AT, requested_by="seed", created_at=AT
    )
    staging.stage_run(pending, fence=0, tools=tools, **who)


def open_due(_: Estate, who: Any) -> int:  # noqa: ANN401 - As above.
    ExportSchedule.objects.update(created_at=AT - timedelta(days=62))
    return running.open_due_runs(**who)


def purge(estate: Estate, who: Any) -> int:  # noqa: ANN401 - As above.
    ended = who["at"] - timedelta(days=31)
    ExportRun.objects.filter(pk=run(estate).pk).update(finished_at=ended)
    return staging.purge_contents(kept=timedelta(days=30), **who)


EXPORT_DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "billing.exports.schedules.create_schedule": (
        dora,
        lambda e, who: schedules.create_schedule(
            slug="new",
            organization=e.cast.acme,
            contents=["month"],
            target="mail",
            address="new@example.test",
            day=2,
            hour=6,
            **who,
        ),
        [("billing:export_schedule:create", "acme")],
    ),
    "billing.exports.schedules.change_schedule": (
        dora,
        lambda e, who: schedules.change_schedule(schedule=schedule(e), changes={"day": 3}, **who),
        [("billing:export_schedule:update", "acme")],
    ),
    "billing.exports.schedules.close_schedule": (
        dora,
        lambda e, who: schedules.close_schedule(schedule=schedule(e), **who),
        [("billing:export_schedule:close", "acme")],
    ),
    "billing.exports.schedules.request_run": (
        dora,
        lambda e, who: schedules.request_run(schedule=schedule(e), month="2026-10", **who),
        [("billing:export_run:request", "acme")],
    ),
    "billing.exports.schedules.retry_run": (
        dora,
        lambda e, who: schedules.retry_run(run=run(e), **who),
        [("billing:export_run:retry", "acme")],
    ),
    "billing.exports.running.open_due_runs": (
        dora,
        open_due,
        [("billing:export_run:open", None)],
    ),
    "billing.exports.staging.stage_run": (
        dora,
        stage,
        [("billing:export_run:stage", "acme")],
    ),
    "billing.exports.staging.purge_contents": (
        dora,
        purge,
        [("billing:export_run:purge", None)],
    ),
}

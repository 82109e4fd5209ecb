"""`manage.py tick`: what Celery's ticks do, in this process and without a broker.

It spans the apps, so it lives in the wiring. Run it from a CronJob, or by hand when Celery is away.
A step that fails as a whole is logged and counted, as a task of Celery's is, and the others go on.
It takes the locks of Celery's workers, and skips steps that a worker runs.
"""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

import billing.tasks
import config.management.due_archives
import config.verification
import metering.tasks
import quotas.tasks
import tenants.tasks
from tenants.domain.actors import system_actor
from tenants.domain.refusals import ClockOffError
from tenants.selectors.clock import database_now
from tenants.services.clock import require_clock
from tenants.services.turns import run_isolated

ROUNDS_MAX: Final = 100
"""Each round does everything due, so a few are enough; after these, some step never finishes."""
ACTOR: Final = system_actor("manage.tick")

TICKS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("metering", metering.tasks.tick),
    ("rechecks", metering.tasks.recheck),
    ("devices", metering.tasks.measure_devices),
    ("waste", metering.tasks.derive),
    ("incidents", metering.tasks.report_incidents),
    ("requests", quotas.tasks.look_after_requests),
    ("live use", quotas.tasks.look_after_live_use),
    ("quotas", quotas.tasks.tick),
    ("preemption", quotas.tasks.preempt),
    ("loans", quotas.tasks.share_fairly),
    ("billing", billing.tasks.tick),
    ("daily costs", billing.tasks.add_up_days),
    ("exports", billing.tasks.export_due),
    ("notifications", tenants.tasks.tick),
    ("password links", tenants.tasks.send_password_links),
    ("purged by quotas", quotas.tasks.purge),
    ("purged by tenants", tenants.tasks.purge),
    ("archives", config.management.due_archives.tick),
    ("verification", config.verification.tick),
)
"""In the order of the data flow; each returns its counts, by kind or in total, or None while
another process runs it."""


@dataclass(frozen=True)
class TickReport:
    """What came of the steps so far.

    Attributes:
        totals: What each did, in their order.
        failed: Those that failed as a whole.
        elsewhere: Those that another process was at when they had their last turn.
    """

    totals: Mapping[str, Counter[str]]
    failed: set[str] = field(default_factory=set)
    elsewhere: set[str] = field(default_factory=set)

    def enter(self, app: str, done: Mapping[str, int] | None) -> None:
        """Add the result of one step: None where it failed, empty where another process runs it."""
        self.elsewhere.discard(app)
        if done is None:
            self.failed.add(app)
        elif done:
            self.totals[app].update(done)
        else:
            self.elsewhere.add(app)

    def line(self, app: str) -> str:
        """Return a step's line."""
        parts = [f"{name} {count}" for name, count in self.totals[app].items()]
        parts += ["failed"] * (app in self.failed)
        parts += ["is under way elsewhere"] * (app in self.elsewhere)
        return f"{app}: {', '.join(parts)}"


class Command(BaseCommand):
    """Do what is due in every app."""

    help = "Do what is due in every app, round after round until nothing is left."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take `--once`."""
        parser.add_argument("--once", action="store_true", help="Make one round only.")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Run the rounds and print one line per app.

        Raises:
            CommandError: Some steps failed, and everything else is done; or the clock of this
                process is far off the database's, and nothing was done.
        """
        try:
            require_clock(timezone.now)
        except ClockOffError as error:
            raise CommandError(f"{error.message} {error.advice}") from error
        account = TickReport({app: Counter() for app, _ in TICKS})
        for _ in range(1 if options["once"] else ROUNDS_MAX):
            if not _make_round(account):
                break
        for app in account.totals:
            self.stdout.write(account.line(app))
        if account.failed:
            named = ", ".join(app for app in account.totals if app in account.failed)
            raise CommandError(f"These failed, and the log says why: {named}.")


def _make_round(account: TickReport) -> bool:
    """Do one round, add what it did to the totals, and return whether it did anything.

    A failed step is not retried before the next `tick`.
    """
    has_worked = False
    for app, tick in TICKS:
        if app in account.failed:
            continue
        at = database_now()
        event = f"tick.{app.replace(' ', '_')}.failed"
        handler = partial(_take, tick, at=at)
        done = run_isolated(handler, otherwise=None, event=event, key="", at=at)
        account.enter(app, done)
        has_worked = has_worked or any((done or {}).values())
    return has_worked


def _take(tick: Callable[..., object], *, at: datetime) -> Mapping[str, int] | None:
    return _counts(tick(at=at, actor=ACTOR))


def _counts(done: object) -> dict[str, int]:
    """Return what was done by name; nothing at all where another process is at it."""
    if done is None:
        return {}
    if is_dataclass(done) and not isinstance(done, type):
        return asdict(done)
    return {"done": int(str(done))}

"""`manage.py tick`: what Celery's ticks do, in this process and without a broker.

It spans the apps, so it lives in the wiring. Run it from a CronJob, or by hand when Celery is away.
A step that fails as a whole is logged and counted, as a task of Celery's is, and the others go on.
"""

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

import billing.tasks
import metering.tasks
import quotas.tasks
import tenants.tasks
from tenants.domain.actors import system_actor
from tenants.services.turns import take_turn

ROUNDS_MAX: Final = 100
"""Each round does all that is due, so a few are enough; after these something is due for ever."""
ACTOR: Final = system_actor("manage.tick")

TICKS: Final[tuple[tuple[str, Callable[..., object]], ...]] = (
    ("metering", metering.tasks.tick),
    ("rechecks", metering.tasks.recheck),
    ("waste", metering.tasks.derive),
    ("requests", quotas.tasks.look_after_requests),
    ("live use", quotas.tasks.look_after_live_use),
    ("quotas", quotas.tasks.tick),
    ("preemption", quotas.tasks.preempt),
    ("loans", quotas.tasks.share_fairly),
    ("billing", billing.tasks.tick),
    ("notifications", tenants.tasks.tick),
    ("forgotten by quotas", quotas.tasks.forget),
    ("forgotten by tenants", tenants.tasks.forget),
)
"""In the order in which work flows; each returns how many things it did, told apart or in all."""


class Command(BaseCommand):
    """Do what is due in every app."""

    help = "Do what is due in every app, round after round until nothing is left."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take `--once`."""
        parser.add_argument("--once", action="store_true", help="Make one round only.")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Run the rounds and print a line per app.

        Raises:
            CommandError: Some steps failed; everything else is done.
        """
        totals: dict[str, Counter[str]] = {app: Counter() for app, _ in TICKS}
        failed: set[str] = set()
        for _ in range(1 if options["once"] else ROUNDS_MAX):
            if not _make_round(totals, failed):
                break
        for app, counts in totals.items():
            told = [f"{name} {count}" for name, count in counts.items()]
            self.stdout.write(f"{app}: {', '.join(told + ['failed'] * (app in failed))}")
        if failed:
            named = ", ".join(app for app in totals if app in failed)
            raise CommandError(f"These failed, and the log says why: {named}.")


def _make_round(totals: dict[str, Counter[str]], failed: set[str]) -> bool:
    """Do one round, add what it did to the totals, and return whether it did anything.

    A step that has failed is not tried again: the next `tick` does.
    """
    has_worked = False
    for app, tick in TICKS:
        if app in failed:
            continue
        at = timezone.now()
        event = f"tick.{app.replace(' ', '_')}.failed"
        deed = partial(_take, tick, at=at)
        done = take_turn(deed, otherwise=None, event=event, key="", at=at)
        if done is None:
            failed.add(app)
            continue
        totals[app].update(done)
        has_worked = has_worked or any(done.values())
    return has_worked


def _take(tick: Callable[..., object], *, at: datetime) -> dict[str, int] | None:
    return _counts(tick(at=at, actor=ACTOR))


def _counts(done: object) -> dict[str, int]:
    if is_dataclass(done) and not isinstance(done, type):
        return asdict(done)
    return {"done": int(str(done))}

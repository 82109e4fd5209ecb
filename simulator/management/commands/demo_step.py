"""`manage.py demo_step`: the parts of the demo that work on the database of a built stage."""

import json
from argparse import ArgumentParser
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from billing.models import Invoice
from embedded.prometheus import EmbeddedPrometheus
from embedded.stack import ROOT
from simulator.cluster.exporters.prometheus_history import import_history
from simulator.demo import summary as telling
from simulator.demo.asking import (
    DemoRefusedError,
    ask_for_quota,
    await_quota,
    demo_tokens,
    rest_poster,
)
from simulator.demo.comparison import compare
from simulator.demo.month import (
    StepClock,
    accrue_month,
    invoice_month,
    meter_month,
    now,
    settle_month,
    write_documents,
)
from simulator.demo.oracle import judge
from simulator.demo.plan import PRICE_BOOKS
from simulator.demo.seeding import seed
from simulator.demo.stage import console_on, progress_on
from simulator.demo.summary import print_addresses
from simulator.demo.watching import WATCHED, tell_watch
from simulator.demo.world import World
from simulator.sandbox.plan import SANDBOX, TAILSPIN
from simulator.sandbox.seeding import seed_sandbox
from simulator.sandbox.webhooks import register_webhooks, write_environment
from tenants.domain.errors import DomainError

FOLDER = ROOT / "var" / "demo"
HISTORY_MISSING_MAX = timedelta(seconds=60)
"""Half a scrape: what is missing then is no more than one scrape, which no hour is a gap for."""
HISTORY_ROUNDS_MAX = 5
"""A round takes a hundredth of the time it brings in: the second is over in seconds."""


class Command(BaseCommand):
    """Seed the demo's world, or play its month."""

    help = "A step of the demo; `manage.py demo` runs it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the step and the output format."""
        parser.add_argument("step", choices=["history", "seed", "watch", "month"])
        parser.add_argument("--json", action="store_true")
        parser.add_argument("--programs", type=Path, help="where Prometheus' programs are")
        parser.add_argument("--admission", default="", help="where the admission listener is")
        parser.add_argument("--note", action="append", default=[], help="a line for the summary")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ANN401, ARG002 - Django's own signature.
        """Run the step.

        Raises:
            CommandError: There is no world yet, a step is refused, or the oracle disagrees.
        """
        world = World.read(FOLDER)
        if world is None:
            raise CommandError("There is no demo world yet; run `make demo`.")
        if options["step"] == "history":
            _bring_history(world, options["programs"])
            return
        if options["step"] == "seed":
            _seed(world, admission_url=options["admission"])
            return
        if options["step"] == "watch":
            _watch(world)
            return
        try:
            summary = _play(world, is_json=options["json"], notes=options["note"])
        except (DemoRefusedError, DomainError) as error:
            raise CommandError(str(error)) from error
        if not summary.is_exact:
            raise CommandError("An invoice differs from the oracle's.")


def _bring_history(world: World, programs: Path) -> None:
    """Import what Prometheus would have scraped, until it can scrape by itself.

    What passes while the month is brought in is brought in afterwards, in seconds.
    """
    state = FOLDER.parent
    server = EmbeddedPrometheus(state / "prometheus", programs=programs, mark=state)
    for _ in range(HISTORY_ROUNDS_MAX):
        at = now()
        if at - world.covered_until < HISTORY_MISSING_MAX:
            break
        import_history(
            server,
            world.scenario(at),
            begin_at=world.covered_until,
            until=at,
            is_sparse=True,
            on_progress=lambda done, total: print(f"{done} of {total} parts"),  # noqa: T201 - Its log.
        )
        world = replace(world, covered_until=at)
        world.write(FOLDER)


def _seed(world: World, *, admission_url: str) -> None:
    """Make everything people need to sign in, and write down how to try the sandbox."""
    endpoints = world.endpoints or {}
    # First, so that its organization gets the prices of its currency with the others.
    seed_sandbox(endpoints[SANDBOX], password=world.password, at=now())
    seed(
        world.scenario(world.metered_until),
        metered_from=world.metered_from,
        year=world.year,
        month=world.month,
        endpoints=endpoints,
        password=world.password,
        at=now(),
        watched=WATCHED,
    )
    demo_tokens(FOLDER)
    api_url = endpoints[SANDBOX].kubernetes_url
    register_webhooks(FOLDER, api_url=api_url, admission_url=admission_url)
    write_environment(FOLDER, api_url=api_url, public_url=settings.PUBLIC_URL, at=now())


def _watch(world: World) -> None:
    """Import the watch events of the watched clusters until now."""
    at = now()
    for slug in WATCHED:
        tell_watch(
            world.scenario(at),
            slug=slug,
            begin_at=world.watched_from,
            until=at,
            at=at,
            report=lambda until: print(f"until {until:%d %B}"),  # noqa: T201 - Its log.
        )


def _play(world: World, *, is_json: bool, notes: list[str]) -> telling.Summary:
    console, clock = console_on(is_stderr=is_json), StepClock()
    with progress_on(console) as progress:
        with clock.step("metering"):
            meter_month(world, progress)
        with clock.step("accrual"):
            accrue_month(progress)
        with clock.step("invoicing"):
            invoices = invoice_month(world.label, progress)
            settle_month(invoices)
        with clock.step("documents"):
            written = write_documents(invoices, FOLDER)
    tokens = demo_tokens(FOLDER)
    with clock.step("quota request"), console.status("Asking for quota over REST …"):
        asked = ask_for_quota(rest_poster(settings.PUBLIC_URL), tokens, folder=FOLDER)
        quota = await_quota(asked)
    notes = [*notes, *([asked.note] if asked.note else [])]
    with clock.step("oracle"), console.status("Asking the oracle …"):
        summary = _summarize(world, clock, quota=quota, notes=notes)
    telling.print_summary(summary, console)
    files = [str(path.relative_to(ROOT)) for path in written]
    print_addresses(
        console,
        url=settings.PUBLIC_URL,
        metrics_port=settings.METRICS_PORT,
        password=world.password,
        tokens=tokens,
    )
    console.print(f"Documents  {', '.join(files)}")
    if is_json:
        print(json.dumps(summary.as_json(), indent=2))  # noqa: T201 - The answer of --json.
    return summary


def _summarize(
    world: World, clock: StepClock, *, quota: dict[str, Any], notes: list[str]
) -> telling.Summary:
    scenario = world.scenario(world.metered_until)
    verdict = judge(scenario, PRICE_BOOKS, year=world.year, month=world.month, watched=WATCHED)
    span = (world.metered_from, world.metered_until)
    invoices: list[Invoice] = telling.invoices_of(world.label)
    billed = telling.billed_by_organization(world.label)
    uninvoiced = {TAILSPIN.slug} - {invoice.organization.slug for invoice in invoices}
    return telling.Summary(
        month=world.label,
        source="a real Prometheus" if world.source == "prometheus" else "the simulated source",
        windows=telling.windows_by_state(*span),
        billed=billed,
        not_billed=telling.sandboxes_not_billed(billed, sandboxes=uninvoiced),
        capacity=telling.capacity_by_cluster(*span),
        exceptions=telling.exceptions_by_kind(*span),
        invoices=compare(verdict, invoices),
        unknowable=verdict.unknowable,
        steps=clock.steps,
        quota=quota,
        notes=notes,
    )

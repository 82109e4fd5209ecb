"""`manage.py demo_step`: the parts of the demo that work on the database of a built stage."""

import json
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console

from billing.models import Invoice
from config.demo import summary as telling
from config.demo.asking import (
    DemoRefusedError,
    ask_for_quota,
    await_quota,
    demo_tokens,
    rest_poster,
)
from config.demo.comparison import compare
from config.demo.month import (
    DemoStalledError,
    StepClock,
    accrue_month,
    invoice_month,
    meter_month,
    now,
    write_documents,
)
from config.demo.oracle import judge
from config.demo.plan import FINANCE_ADMIN, PLATFORM_ADMIN, PRICE_BOOKS, QUOTA_REQUEST
from config.demo.sandbox import SANDBOX, TAILSPIN
from config.demo.sandbox_seeding import seed_sandbox
from config.demo.sandbox_webhooks import register_webhooks, write_environment
from config.demo.seeding import seed
from config.demo.stage import console_on, progress_on
from config.demo.watching import WATCHED, tell_watch
from config.demo.world import World
from config.embedded.stack import ROOT
from tenants.domain.errors import DomainError

FOLDER = ROOT / "var" / "demo"


class Command(BaseCommand):
    """Seed the demo's world, or play its month."""

    help = "A step of the demo; `manage.py demo` runs it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the step and how to tell."""
        parser.add_argument("step", choices=["seed", "watch", "sandbox", "month"])
        parser.add_argument("--json", action="store_true")
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
        if options["step"] == "seed":
            _seed(world)
            return
        if options["step"] == "watch":
            _watch(world)
            return
        if options["step"] == "sandbox":
            _open_sandbox(world, admission_url=options["admission"])
            return
        try:
            summary = _play(world, is_json=options["json"], notes=options["note"])
        except (DemoRefusedError, DemoStalledError, DomainError) as error:
            raise CommandError(str(error)) from error
        if not summary.is_exact:
            raise CommandError("An invoice differs from the oracle's.")


def _seed(world: World) -> None:
    endpoints = world.endpoints or {}
    # First, so that its organization is given the prices of its currency with the others.
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


def _watch(world: World) -> None:
    """Tell what the watched clusters' APIs told until now."""
    at = now()
    for slug in WATCHED:
        tell_watch(world.scenario(at), slug=slug, begin_at=world.watched_from, until=at, at=at)


def _open_sandbox(world: World, *, admission_url: str) -> None:
    """Let the sandbox's API ask our admission, and write down how to try it."""
    api_url = (world.endpoints or {})[SANDBOX].kubernetes_url
    register_webhooks(FOLDER, api_url=api_url, admission_url=admission_url)
    write_environment(FOLDER, api_url=api_url, public_url=settings.PUBLIC_URL, at=now())


def _play(world: World, *, is_json: bool, notes: list[str]) -> telling.Summary:
    console, clock = console_on(is_stderr=is_json), StepClock()
    with progress_on(console) as progress:
        with clock.step("metering"):
            meter_month(world, progress)
        with clock.step("accrual"):
            accrue_month(progress)
        with clock.step("invoicing"):
            invoices = invoice_month(world, progress)
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
    _print_doors(console, world, tokens, files=[str(path.relative_to(ROOT)) for path in written])
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


def _print_doors(
    console: Console, world: World, tokens: dict[str, str], *, files: list[str]
) -> None:
    asker, approver = QUOTA_REQUEST.requested_by, QUOTA_REQUEST.approved_by
    console.rule("[bold]Look around")
    console.print(f"Documents  {', '.join(files)}")
    console.print(f"Admin      {settings.PUBLIC_URL}/admin/")
    console.print(f"           sign in as {FINANCE_ADMIN} (finance) or {PLATFORM_ADMIN} (platform)")
    console.print(f"           with the password {world.password}")
    console.print(f"API        {settings.PUBLIC_URL}/api/v1/docs/")
    console.print(f"           token of {asker}, who leads a project:")
    console.print(f"           {tokens[asker]}", soft_wrap=True)
    console.print(f"           token of {approver}, who administers its organization:")
    console.print(f"           {tokens[approver]}", soft_wrap=True)
    console.print("Sandbox    a cluster to try quota in: docs/how-to/try-the-sandbox.md")
    console.print("           begin with: . var/demo/sandbox.env")

"""The demo's month: metered by the workers, accrued, drafted, finalized, documents written.

Everything is done through the services and the tables, and each step looks first what is left to
do, so that an interrupted demo resumes and ends with the same invoices.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar

from django.conf import settings
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models import QuerySet
from rich.progress import Progress

from billing.adapters.documents import render_csv
from billing.adapters.terms import invoice_terms, render_document
from billing.domain.documents.carrying import due_of
from billing.domain.documents.invoicing import InvoiceState
from billing.domain.errors import UnusualCostError
from billing.domain.ledger.bank_rows import BankRow
from billing.models import BillingPeriod, Invoice, OpeningBalance, Payment
from billing.models.invoice import FileKind
from billing.selectors.pending import pending_window_ids
from billing.services.closing import review_period
from billing.services.finalizing import file_of, finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.ledger.opening_balances import record_opening_balance
from billing.services.ledger.payments import record_payment
from billing.services.periods import open_period
from billing.tasks import accrue_pending
from metering.domain.collection.windows import GapPolicy
from metering.models import MeteringWindow, WindowState
from metering.services.collection.hour_decisions import decide_window
from metering.tasks import tick_windows
from simulator.cluster.demo_tenancy import ORGANIZATIONS
from simulator.demo.plan import (
    FINANCE_ADMIN,
    FINANCE_REVIEWER,
    OLD_DEBT,
    PAYER,
    PLATFORM_ADMIN,
)
from simulator.demo.stage import LINE_SECONDS
from simulator.demo.world import CLUSTERS, World
from tenants.domain.actors import Actor, system_actor
from tenants.models import Organization
from tenants.selectors.actors import actor_of_user
from tenants.services.wakeups import wake

POLL_SECONDS = 0.5
ATTEMPTS_MAX = 100
"""Of a step that workers keep from its locks: each waits two seconds for them itself."""
SLOW_SECONDS = 60
SLOW = (
    "No hour was sealed for {seconds} s. The servers run on, and metering continues when the "
    "machine has time for it; var/log/worker.log says what the workers do."
)
SETTLED = (WindowState.SEALED, WindowState.GAP, WindowState.QUARANTINED)
Result = TypeVar("Result")
WHOLE_MONTH = "The first whole month: of the one before, some hours were metered."
GAP_NOTE = "Prometheus was down; what the neighbouring scrapes show is accepted."


class StepClock:
    """How long each step of the demo took, in whole tenths of a second."""

    def __init__(self) -> None:
        """Nothing has been timed yet."""
        self.steps: dict[str, Decimal] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time one step; several of the same name add up."""
        begin = time.monotonic()
        yield
        seconds = Decimal(str(time.monotonic() - begin)).quantize(Decimal("0.1"))
        self.steps[name] = self.steps.get(name, Decimal(0)) + seconds


def now() -> datetime:
    """Return the present moment: the demo is an entry point."""
    return datetime.now(UTC)


def actor_named(username: str) -> Actor:
    """Return a demo person as an actor."""
    return actor_of_user(User.objects.get(username=username))


@dataclass(frozen=True)
class DemoClock:
    """How time passes while the workers are waited for."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


REAL_TIME = DemoClock()


def meter_month(world: World, progress: Progress, *, clock: DemoClock = REAL_TIME) -> None:
    """Wait until the workers have settled every hour of the month, and decide on its gaps.

    It waits as long as they take: only what they have done is watched, and nothing is ended.
    """
    _wait_until_settled(world, progress, clock)
    released = 0
    for window in _windows(world).filter(state=WindowState.GAP):
        release = partial(
            decide_window,
            window_id=window.pk,
            decision=GapPolicy.ACCEPT,
            note=GAP_NOTE,
            actor=actor_named(PLATFORM_ADMIN),
            at=now(),
        )
        _patiently(release)
        released += 1
    if released:
        _wait_until_settled(world, progress, clock)


def _windows(world: World) -> QuerySet[MeteringWindow]:
    """Return the month's hours of the demo's own clusters; people may have registered others."""
    return MeteringWindow.objects.filter(
        cluster__slug__in=CLUSTERS,
        start_at__gte=world.metered_from,
        start_at__lt=world.metered_until,
    )


def _wait_until_settled(world: World, progress: Progress, clock: DemoClock) -> None:
    hours = (world.metered_until - world.metered_from).total_seconds() // 3600
    total = int(hours) * len(CLUSTERS)
    task = progress.add_task("Metering", total=total)
    pace = _Pace(total, is_live=progress.console.is_terminal)
    settled = _count_settled(world)
    if settled < total:
        wake(tick_windows.name)
    while settled < total:
        progress.update(task, completed=settled)
        for line in pace.lines(settled, at_seconds=clock.monotonic()):
            progress.console.print(line)
        clock.sleep(POLL_SECONDS)
        settled = _count_settled(world)
    progress.update(task, completed=total)


def _count_settled(world: World) -> int:
    return _windows(world).filter(state__in=SETTLED).count()


class _Pace:
    """What is worth a line while the month is metered.

    Args:
        total: Hours of the month, over all its clusters.
        is_live: Whether a progress bar is shown, so that only a standstill needs a line.
    """

    def __init__(self, total: int, *, is_live: bool) -> None:
        """Nothing has been counted yet."""
        self._total = total
        self._is_live = is_live
        self._settled = -1
        self._moved_at = self._warned_at = self._printed_at = 0.0

    def lines(self, settled: int, *, at_seconds: float) -> list[str]:
        """Return what to print now.

        Args:
            settled: Hours that need no worker any more.
            at_seconds: By a clock that only goes forward.
        """
        if settled != self._settled:
            self._settled, self._moved_at, self._warned_at = settled, at_seconds, at_seconds
        lines = []
        if not self._is_live and at_seconds - self._printed_at >= LINE_SECONDS:
            self._printed_at = at_seconds
            lines.append(f"Metering: {settled} of {self._total} hours.")
        if at_seconds - self._warned_at >= SLOW_SECONDS:
            self._warned_at = at_seconds
            lines.append(SLOW.format(seconds=int(at_seconds - self._moved_at)))
        return lines


def accrue_month(progress: Progress) -> None:
    """Create charges for all sealed usage."""
    actor = system_actor("demo.accrual")
    task = progress.add_task("Accruing", total=None)
    for _ in range(ATTEMPTS_MAX):
        if not pending_window_ids(limit=1):
            break
        windows, _, _ = accrue_pending(at=now(), actor=actor)
        progress.update(task, advance=windows)
        if not windows:
            # A worker accrues the same hours; the invoice lists what cannot be accrued.
            time.sleep(POLL_SECONDS)
    progress.update(task, total=1, completed=1)


def invoice_month(label: str, progress: Progress) -> list[Invoice]:
    """Draft the invoice of everybody in a month as one person and finalize it as another."""
    slugs = [plan.slug for plan in ORGANIZATIONS]
    organizations = list(Organization.objects.filter(slug__in=slugs).order_by("slug"))
    task = progress.add_task("Invoicing", total=len(organizations))
    invoices = []
    for organization in organizations:
        period = BillingPeriod.objects.filter(
            organization=organization, label=label
        ).first() or open_period(
            organization=organization,
            label=label,
            actor=actor_named(FINANCE_ADMIN),
            at=now(),
        )
        invoices.append(_finalized(period))
        progress.update(task, advance=1)
    return invoices


def _finalized(period: BillingPeriod) -> Invoice:
    terms = invoice_terms()
    invoice = Invoice.objects.filter(period=period).first()
    if invoice is not None and invoice.state == InvoiceState.FINAL:
        return invoice
    drafter, reviewer = actor_named(FINANCE_ADMIN), actor_named(FINANCE_REVIEWER)
    draft = _patiently(
        lambda: draft_invoice(period_id=period.pk, actor=drafter, at=now(), terms=terms)
    )
    finalize = partial(finalize_invoice, actor=reviewer, at=now(), terms=terms)
    try:
        return _patiently(lambda: finalize(invoice_id=draft.pk))
    except UnusualCostError:
        # A person has closed September meanwhile, of which a few hours were metered.
        review = partial(
            review_period,
            period_id=period.pk,
            actor=drafter,
            at=now(),
            terms=terms,
            acknowledgement=WHOLE_MONTH,
        )
        _patiently(review)
        return _patiently(lambda: finalize(invoice_id=Invoice.objects.get(period=period).pk))


def settle_month(invoices: Iterable[Invoice]) -> None:
    """Record the payment of one invoice, and what another organization owed before; each once."""
    at, actor = now(), actor_named(FINANCE_ADMIN)
    for invoice in invoices:
        if invoice.organization.slug == PAYER:
            _pay(invoice, actor=actor, at=at)
    debtor = Organization.objects.get(slug=OLD_DEBT.organization)
    if not OpeningBalance.objects.filter(reference=OLD_DEBT.reference).exists():
        record_opening_balance(
            organization=debtor,
            reference=OLD_DEBT.reference,
            amount=OLD_DEBT.amount,
            currency=debtor.billing_currency,
            dated_on=at.date(),
            due_on=at.date() - timedelta(days=OLD_DEBT.overdue_days),
            actor=actor,
            at=at,
        )


def _pay(invoice: Invoice, *, actor: Actor, at: datetime) -> None:
    row = BankRow(
        bank_account=settings.ISSUER["bank_account"],
        bank_reference=f"SEPA-{invoice.reference}",
        amount=due_of(invoice.document).amount,
        currency=invoice.currency,
        booked_on=at.date(),
        payer=invoice.organization.name,
        remittance=f"Invoice {invoice.reference}",
    )
    if not Payment.objects.filter(bank_reference=row.bank_reference).exists():
        record_payment(row=row, organization_id=invoice.organization_id, actor=actor, at=at)


def _patiently(step: Callable[[], Result]) -> Result:
    """Do a step, which is one transaction, again where another kept its locks for too long."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return step()
        except OperationalError:
            time.sleep(POLL_SECONDS)
    return step()


def write_documents(invoices: list[Invoice], folder: Path) -> list[Path]:
    """Write each invoice as PDF and CSV; return the files, PDFs and CSVs side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for invoice in invoices:
        for suffix, content in (
            ("pdf", file_of(invoice, kind=FileKind.PDF, render=render_document, at=now())),
            ("csv", render_csv(invoice.document)),
        ):
            path = folder / f"{invoice.reference}.{suffix}"
            path.write_bytes(content)
            written.append(path)
    return written

"""The demo's month: metered by the workers, accrued, drafted, finalized, documents written.

Everything is done through the services and the tables, and each step looks first what is left to
do, so that a demo that was cut off at any point goes on and ends with the same invoices.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from rich.progress import Progress

from billing.adapters.csv_export import render_csv
from billing.adapters.pdf import render_pdf
from billing.domain.document import InvoiceTerms
from billing.domain.invoice_state import InvoiceState
from billing.models import BillingPeriod, Invoice
from billing.selectors.pending import pending_window_ids
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.periods import open_period
from billing.tasks import accrue_pending
from config.demo.plan import FINANCE_ADMIN, FINANCE_REVIEWER, PLATFORM_ADMIN
from config.demo.world import CLUSTERS, World
from metering.adapters.simulated_cluster.demo_tenancy import ORGANIZATIONS
from metering.domain.policy import GapPolicy
from metering.models import MeteringWindow, WindowState
from metering.services.decisions import release_gap
from metering.tasks import tick_windows
from tenants.domain.actors import Actor, system_actor
from tenants.models import Organization
from tenants.selectors.actors import actor_of_user

POLL_SECONDS = 0.25
HINT_SECONDS = 5
STALLED_SECONDS_MAX = 600
"""Longer than a lease: what a killed worker had claimed is free again only when that ends."""
SETTLED = (WindowState.SEALED, WindowState.GAP, WindowState.QUARANTINED)
GAP_NOTE = "Prometheus was down; what the neighbouring scrapes show is accepted."


class DemoStalledError(Exception):
    """Raised when nothing has moved for long; the text says where to look."""


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
    """Return the present moment: the demo is a door."""
    return datetime.now(UTC)


def actor_named(username: str) -> Actor:
    """Return a demo person as an actor."""
    return actor_of_user(User.objects.get(username=username))


def meter_month(world: World, progress: Progress) -> None:
    """Wait until the workers have settled every hour of the month, and decide on its gaps.

    Raises:
        DemoStalledError: Nothing was metered for a long while.
    """
    _wait_until_settled(world, progress)
    released = 0
    for window in _windows(world).filter(state=WindowState.GAP):
        release_gap(
            window_id=window.pk,
            decision=GapPolicy.ACCEPT,
            note=GAP_NOTE,
            actor=actor_named(PLATFORM_ADMIN),
            at=now(),
        )
        released += 1
    if released:
        _wait_until_settled(world, progress)


def _windows(world: World) -> QuerySet[MeteringWindow]:
    """Return the month's hours of the demo's own clusters; people may have registered others."""
    return MeteringWindow.objects.filter(
        cluster__slug__in=CLUSTERS,
        start_at__gte=world.metered_from,
        start_at__lt=world.metered_until,
    )


def _wait_until_settled(world: World, progress: Progress) -> None:
    hours = (world.metered_until - world.metered_from).total_seconds() // 3600
    total = int(hours) * len(CLUSTERS)
    task = progress.add_task("Metering", total=total)

    def settled() -> int:
        return _windows(world).filter(state__in=SETTLED).count()

    _watch(settled, total=total, hint=ring, tell=lambda n: progress.update(task, completed=n))


def ring() -> None:
    """Ask the workers to look what is due, now rather than at the next tick."""
    tick_windows.apply_async(retry=False, ignore_result=True)


def _watch(
    count: Callable[[], int],
    *,
    total: int,
    hint: Callable[[], None],
    tell: Callable[[int], None],
) -> None:
    done, moved_at, hinted_at = -1, time.monotonic(), 0.0
    while (current := count()) < total:
        if current != done:
            done, moved_at = current, time.monotonic()
            tell(current)
        if time.monotonic() - moved_at > STALLED_SECONDS_MAX:
            raise DemoStalledError(
                f"Metering stands still at {current} of {total} hours; see var/log/worker.log."
            )
        if time.monotonic() - max(hinted_at, moved_at) > HINT_SECONDS or not hinted_at:
            hint()
            hinted_at = time.monotonic()
        time.sleep(POLL_SECONDS)
    tell(total)


def accrue_month(progress: Progress) -> None:
    """Turn all sealed usage into charges."""
    actor = system_actor("demo.accrual")
    task = progress.add_task("Accruing", total=None)
    while pending_window_ids(limit=1):
        windows, _, exceptions = accrue_pending(at=now(), actor=actor)
        progress.update(task, advance=windows)
        if not windows or exceptions:
            break
    progress.update(task, total=1, completed=1)


def invoice_month(world: World, progress: Progress) -> list[Invoice]:
    """Draft the invoice of everybody in the month as one person and finalize it as another."""
    slugs = [plan.slug for plan in ORGANIZATIONS]
    organizations = list(Organization.objects.filter(slug__in=slugs).order_by("slug"))
    task = progress.add_task("Invoicing", total=len(organizations))
    invoices = []
    for organization in organizations:
        period = BillingPeriod.objects.filter(
            organization=organization, label=world.label
        ).first() or open_period(
            organization=organization,
            label=world.label,
            actor=actor_named(FINANCE_ADMIN),
            at=now(),
        )
        invoices.append(_finalized(period))
        progress.update(task, advance=1)
    return invoices


def _finalized(period: BillingPeriod) -> Invoice:
    terms = InvoiceTerms.read(
        settings.ISSUER, series=settings.INVOICE_SERIES, is_four_eyes=settings.FOUR_EYES
    )
    invoice = Invoice.objects.filter(period=period).first()
    if invoice is not None and invoice.state == InvoiceState.FINAL:
        return invoice
    drafter, reviewer = actor_named(FINANCE_ADMIN), actor_named(FINANCE_REVIEWER)
    draft = draft_invoice(period_id=period.pk, actor=drafter, at=now(), terms=terms)
    return finalize_invoice(invoice_id=draft.pk, actor=reviewer, at=now(), terms=terms)


def write_documents(invoices: list[Invoice], folder: Path) -> list[Path]:
    """Write each invoice as PDF and CSV; return the files, PDFs and CSVs side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for invoice in invoices:
        for suffix, render in (("pdf", render_pdf), ("csv", render_csv)):
            path = folder / f"{invoice.reference}.{suffix}"
            path.write_bytes(render(invoice.document))
            written.append(path)
    return written

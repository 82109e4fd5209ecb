"""What the run does in the database itself: tenants and clusters before, checks and invoices after.

Imported once Django's settings are there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import Final

from celery import current_app
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.models import Count, QuerySet, Sum
from rich.progress import Progress

from billing.models import Charge, Invoice
from metering.models import ExceptionState, MeteringException, MeteringWindow, UsageRecord
from metering.tasks import tick_windows
from simulator.demo.comparison import InvoiceComparison, compare
from simulator.demo.month import accrue_month, invoice_month
from simulator.demo.seeding import Endpoints, seed
from simulator.hosts.backlog import Backlog
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Cluster, SweepCrash
from tenants.selectors.clock import database_now
from tenants.services.clusters import update_cluster
from tenants.services.wakeups import wake

NOWHERE: Final = ("https://127.0.0.1:9/", "kubeconfig:nowhere")
"""No cluster's API is asked in this run."""
PASSWORD: Final = "of a run of some minutes"  # noqa: S105 - Its database is deleted afterwards.
EXPECTED_KINDS: Final = frozenset({"unbound_namespace", "unknown_device"})
"""Exceptions that the scenario itself holds: a namespace without a project, an unknown device."""


@dataclass(frozen=True)
class RunOutcome:
    """What came of the run.

    Attributes:
        windows: Hours that were due.
        sealed: Hours that are sealed.
        seals: Entries of the audit trail that seal an hour.
        leases: How often hours were leased.
        billed: Unit-seconds of charges by organization and size.
        expected: The same by the oracle.
        used: Unit-seconds of usage in all organizations.
        charged: Unit-seconds of charges in all organizations.
        invoices: Each invoice beside the oracle's.
        unexplained: Open exceptions by kind, without those of the scenario.
        crashes: Unexpected errors by event, each of which was counted and isolated.
        verification: Why `manage.py verify` failed; "" when it found no difference.
    """

    windows: int
    sealed: int
    seals: int
    leases: int
    billed: Mapping[str, Mapping[str, int]]
    expected: Mapping[str, Mapping[str, int]]
    used: int
    charged: int
    invoices: tuple[InvoiceComparison, ...]
    unexplained: Mapping[str, int]
    crashes: Mapping[str, int]
    verification: str

    def problems(self) -> list[str]:
        """Return what is wrong, a sentence each; none when all holds."""
        checks = {
            f"{self.sealed} of {self.windows} hours are sealed.": self.sealed == self.windows,
            f"{self.windows} hours were sealed {self.seals} times.": self.seals == self.windows,
            "Unit-seconds billed differ from the oracle's.": self.billed == self.expected,
            f"{self.used} unit-seconds were used, {self.charged} charged.": self.used
            == self.charged,
            "An invoice differs from the oracle's.": all(one.is_equal for one in self.invoices),
            f"Open exceptions: {dict(self.unexplained)}.": not self.unexplained,
            f"Verification: {self.verification}": not self.verification,
        }
        return [sentence for sentence, holds in checks.items() if not holds]


def seed_fleet(backlog: Backlog, urls: Mapping[str, str], *, at: datetime) -> None:
    """Make tenants, prices and clusters.

    Args:
        backlog: What is metered.
        urls: Of each cluster's Prometheus.
        at: Now.
    """
    seed(
        backlog.scenario,
        metered_from=backlog.begin_at,
        year=backlog.year,
        month=backlog.month,
        endpoints={slug: Endpoints(url, *NOWHERE) for slug, url in urls.items()},
        password=PASSWORD,
        at=at,
        books=backlog.books,
    )


def make_due(until: datetime, *, at: datetime) -> None:
    """Let the hours of every cluster before a moment be due, and wake a worker."""
    for cluster in Cluster.objects.all():
        update_cluster(
            cluster=cluster,
            changes={"metered_until": until},
            actor=system_actor("hosts"),
            at=at,
        )
    wake(tick_windows.name)


def count_unsealed() -> int | None:
    """Return how many hours are opened and not sealed; None before any is opened."""
    windows = MeteringWindow.objects.all()
    return windows.exclude(state="sealed").count() if windows.exists() else None


def count_waiting() -> int:
    """Return how many hours no worker has leased; one whose worker was lost waits five minutes."""
    return MeteringWindow.objects.filter(state="open").count()


def count_sealed(slug: str) -> int:
    """Return how many hours of a cluster are sealed."""
    return MeteringWindow.objects.filter(cluster__slug=slug, state="sealed").count()


def end_leases() -> None:
    """Let all leases of hours and of wake-ups end now, as they would after five minutes.

    A worker that is at it yet has its writes refused, and the hour is metered again.
    """
    MeteringWindow.objects.filter(state="collecting").update(lease_until=database_now())
    # One of the process's pool may be of a broker that was lost.
    with current_app.connection_for_write() as broker:
        client = broker.default_channel.client
        for key in client.scan_iter("busy:*"):
            client.delete(key)
    wake(tick_windows.name)


def settle(backlog: Backlog) -> RunOutcome:
    """Accrue what is left, invoice the month, verify the database, and compare with the oracle."""
    silent = Progress(disable=True)
    accrue_month(silent)
    invoice_month(backlog.label, silent)
    verdict = backlog.verdict()
    invoices = (
        Invoice.objects.filter(period__label=backlog.label)
        .select_related("organization")
        .prefetch_related("lines__project")
    )
    expected = {one.organization: dict(one.unit_seconds) for one in verdict.invoices}
    return RunOutcome(
        windows=backlog.windows,
        sealed=MeteringWindow.objects.filter(state="sealed").count(),
        seals=AuditEntry.objects.filter(action="metering:window:seal").count(),
        leases=MeteringWindow.objects.aggregate(total=Sum("fence"))["total"] or 0,
        billed=_billed(backlog),
        expected=expected,
        used=_total(UsageRecord.objects.all()),
        charged=_total(Charge.objects.all()),
        invoices=compare(verdict, invoices),
        unexplained=_unexplained(),
        crashes=dict(SweepCrash.objects.values_list("event", "count")),
        verification=_verify(),
    )


def _billed(backlog: Backlog) -> dict[str, dict[str, int]]:
    rows = (
        Charge.objects.filter(period__label=backlog.label)
        .order_by("organization__slug", "size")
        .values_list("organization__slug", "size")
        .annotate(total=Sum("unit_seconds"))
    )
    billed: dict[str, dict[str, int]] = {}
    for slug, size, total in rows:
        billed.setdefault(slug, {})[size] = total
    return billed


def _total(rows: QuerySet[Charge] | QuerySet[UsageRecord]) -> int:
    return int(rows.aggregate(total=Sum("unit_seconds"))["total"] or 0)


def _unexplained() -> dict[str, int]:
    rows = (
        MeteringException.objects.filter(state=ExceptionState.OPEN)
        .exclude(kind__in=EXPECTED_KINDS)
        .order_by("kind")
        .values_list("kind")
        .annotate(count=Count("id"))
    )
    return dict(rows)


def _verify() -> str:
    found = StringIO()
    try:
        call_command("verify", stdout=StringIO(), stderr=found)
    except CommandError as error:
        return f"{error} {found.getvalue()}"
    return ""

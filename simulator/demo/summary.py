"""The demo's summary: what was billed, idle, held and excepted, and whether the oracle agrees."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Sum
from rich.console import Console
from rich.table import Table

from billing.models import BillingPeriod, Invoice
from metering.models import CapacityRecord, MeteringException, MeteringWindow, UsageRecord
from simulator.demo.comparison import InvoiceComparison
from simulator.demo.oracle import Unknowable
from simulator.demo.plan import (
    FINANCE_ADMIN,
    FINANCE_REVIEWER,
    PLATFORM_ADMIN,
    PLATFORM_REVIEWER,
    QUOTA_REQUEST,
)

SIZES = ("small", "medium", "large")
SECONDS_PER_HOUR = 3600
MAILS = "mails"
"""The demo's folder of mails, below its own."""


@dataclass
class Summary:
    """Everything the demo prints at its end; `as_json` is what `--json` prints."""

    month: str
    source: str
    windows: Mapping[str, int]
    billed: Mapping[str, Mapping[str, int]]
    capacity: Sequence[Mapping[str, Any]]
    exceptions: Sequence[Mapping[str, Any]]
    invoices: Sequence[InvoiceComparison]
    unknowable: Sequence[Unknowable]
    steps: Mapping[str, Decimal]
    quota: Mapping[str, Any]
    not_billed: Mapping[str, str] = field(default_factory=dict)
    """Why an organization has no invoice of the month, by its slug."""
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def is_exact(self) -> bool:
        """Whether every invoice equals the oracle's."""
        return all(comparison.is_equal for comparison in self.invoices)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; money and seconds as text, unit-seconds as integers."""
        return {
            "month": self.month,
            "source": self.source,
            "windows": dict(self.windows),
            "organizations": {slug: dict(sizes) for slug, sizes in self.billed.items()},
            "not_billed": dict(self.not_billed),
            "capacity": [dict(row) for row in self.capacity],
            "exceptions": [dict(row) for row in self.exceptions],
            "invoices": [
                {
                    "organization": one.organization,
                    "number": one.reference,
                    "currency": one.currency,
                    "total": str(one.invoiced_total),
                    "oracle_total": str(one.expected_total),
                    "unit_seconds": dict(one.invoiced_unit_seconds),
                    "oracle_unit_seconds": dict(one.expected_unit_seconds),
                    "is_equal": one.is_equal,
                }
                for one in self.invoices
            ],
            "unknowable": [
                {
                    "cluster": one.cluster,
                    "pod": one.pod,
                    "cause": one.cause,
                    "unit_seconds": one.unit_seconds,
                }
                for one in self.unknowable
            ],
            "quota": dict(self.quota),
            "seconds": {step: str(seconds) for step, seconds in self.steps.items()},
            "notes": list(self.notes),
        }


def windows_by_state(begin_at: datetime, end_at: datetime) -> dict[str, int]:
    """Return how many windows of [begin_at, end_at) are in which state."""
    rows = (
        MeteringWindow.objects.filter(start_at__gte=begin_at, start_at__lt=end_at)
        .order_by("state")
        .values_list("state")
        .annotate(n=Count("id"))
    )
    return dict(rows)


def billed_by_organization(label: str) -> dict[str, dict[str, int]]:
    """Return unit-seconds by organization and size over each organization's own period."""
    billed: dict[str, dict[str, int]] = {}
    for period in BillingPeriod.objects.filter(label=label).select_related("organization"):
        rows = (
            UsageRecord.objects.filter(
                organization=period.organization,
                window_start__gte=period.hours.lower,
                window_start__lt=period.hours.upper,
            )
            .order_by("size")
            .values_list("size")
            .annotate(n=Sum("unit_seconds"))
        )
        billed[period.organization.slug] = dict(rows)
    return billed


def sandboxes_not_billed(
    billed: Mapping[str, Mapping[str, int]], *, sandboxes: Collection[str]
) -> dict[str, str]:
    """Return the organizations of a sandbox without usage in the month, with the reason.

    A tenant with an invoice is never among them: its zero is a finding.

    Args:
        billed: Unit-seconds by organization and size.
        sandboxes: Slugs of those that are there to be played with and have no invoice.
    """
    idle = [slug for slug in billed if slug in sandboxes and not any(billed[slug].values())]
    return dict.fromkeys(idle, "not billed: sandbox")


def capacity_by_cluster(begin_at: datetime, end_at: datetime) -> list[dict[str, Any]]:
    """Return device-seconds that were there, billed, held and idle, by cluster.

    One unit counts as its share of a device, so that shares and whole GPUs add up.
    """
    share = F("share_numerator") * Decimal("1.000000000000") / F("share_denominator")
    rows = (
        CapacityRecord.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
        .exclude(size="")
        .order_by("cluster__slug")
        .values("cluster__slug")
        .annotate(
            capacity=Sum(F("capacity_unit_seconds") * share),
            billed=Sum(F("billed_unit_seconds") * share),
            held=Sum(F("held_unit_seconds") * share),
            idle=Sum(F("idle_unit_seconds") * share),
        )
    )
    return [
        {
            "cluster": row["cluster__slug"],
            **{
                name: str((row[name] / SECONDS_PER_HOUR).quantize(Decimal("0.1")))
                for name in ("capacity", "billed", "held", "idle")
            },
        }
        for row in rows
    ]


def exceptions_by_kind(begin_at: datetime, end_at: datetime) -> list[dict[str, Any]]:
    """Return exceptions of [begin_at, end_at) by cluster, kind and state, with what they hold."""
    rows = (
        MeteringException.objects.filter(window_start__gte=begin_at, window_start__lt=end_at)
        .order_by("cluster__slug", "kind", "state")
        .values("cluster__slug", "kind", "state")
        .annotate(n=Count("id"), held=Sum("held_unit_seconds"))
    )
    return [
        {
            "cluster": row["cluster__slug"],
            "kind": row["kind"],
            "state": row["state"],
            "count": row["n"],
            "held_unit_seconds": row["held"],
        }
        for row in rows
    ]


def invoices_of(label: str) -> list[Invoice]:
    """Return a month's invoices with what a comparison needs, by organization."""
    return list(
        Invoice.objects.filter(period__label=label)
        .select_related("organization", "period")
        .prefetch_related("lines__project")
        .order_by("organization__slug")
    )


def print_addresses(
    console: Console, *, url: str, metrics_port: int, password: str, tokens: Mapping[str, str]
) -> None:
    """Print the addresses of the service, and the user names and passwords."""
    asker, approver = QUOTA_REQUEST.requested_by, QUOTA_REQUEST.approved_by
    console.rule("[bold]Look around")
    console.print(f"Admin      {url}/admin/")
    console.print(
        f"           sign in as {FINANCE_ADMIN} (finance) or {PLATFORM_ADMIN} (platform);"
    )
    console.print(f"           {FINANCE_REVIEWER} and {PLATFORM_REVIEWER} are the second persons")
    console.print(f"           with the password {password}")
    console.print(f"Pages      {url}/app/")
    console.print(f"           sign in as {asker} (project lead) or {approver} (administrator)")
    console.print(f"Access     {url}/accounts/")
    console.print("           own tokens, sessions and password of each person")
    console.print(f"Mails      var/demo/{MAILS}/")
    console.print("           one file each; open the links in them as their readers")
    console.print(f"Metrics    http://127.0.0.1:{metrics_port}/metrics")
    console.print(f"API        {url}/api/v1/docs/")
    console.print(f"           token of {asker}, who leads a project:")
    console.print(f"           {tokens.get(asker, '')}", soft_wrap=True)
    console.print(f"           token of {approver}, who administers its organization:")
    console.print(f"           {tokens.get(approver, '')}", soft_wrap=True)
    console.print("Sandbox    a cluster to try quota in: docs/how-to/try-the-sandbox.md")
    console.print("           begin with: . var/demo/sandbox.env")


def print_summary(summary: Summary, console: Console) -> None:
    """Print the summary as tables."""
    console.rule(f"[bold]{summary.month}, metered from {summary.source}")
    console.print(_billed_table(summary))
    console.print(_capacity_table(summary))
    if summary.exceptions:
        console.print(_exception_table(summary))
    console.print(_oracle_table(summary))
    _print_unknowable(summary, console)
    steps = ", ".join(f"{name} {seconds} s" for name, seconds in summary.steps.items())
    console.print(f"Steps: {steps}.", style="dim")
    for note in summary.notes:
        console.print(note)


def _hours(unit_seconds: int) -> str:
    return f"{Decimal(unit_seconds) / SECONDS_PER_HOUR:,.2f}"


def _billed_table(summary: Summary) -> Table:
    table = Table(title="Billed unit-hours", title_justify="left")
    table.add_column("Organization")
    for size in SIZES:
        table.add_column(size.capitalize(), justify="right")
    if summary.not_billed:
        table.add_column("")
    for slug, sizes in summary.billed.items():
        why = summary.not_billed.get(slug)
        hours = [_hours(sizes.get(size, 0)) for size in SIZES]
        table.add_row(slug, *(hours if why is None else ("", "", "", why)))
    return table


def _capacity_table(summary: Summary) -> Table:
    table = Table(title="Capacity in device-hours", title_justify="left")
    table.add_column("Cluster")
    names = ("capacity", "billed", "held", "idle")
    for name in names:
        table.add_column(name.capitalize(), justify="right")
    for row in summary.capacity:
        table.add_row(row["cluster"], *(f"{Decimal(row[name]):,.1f}" for name in names))
    return table


def _exception_table(summary: Summary) -> Table:
    table = Table(title="Exceptions", title_justify="left")
    for name in ("Cluster", "Cause", "State"):
        table.add_column(name)
    for name in ("Windows", "Held unit-hours"):
        table.add_column(name, justify="right")
    for row in summary.exceptions:
        table.add_row(
            row["cluster"],
            str(row["kind"]).replace("_", " "),
            row["state"],
            str(row["count"]),
            "no size" if row["kind"] == "unknown_device" else _hours(row["held_unit_seconds"]),
        )
    return table


def _oracle_table(summary: Summary) -> Table:
    table = Table(title="Invoices against the oracle", title_justify="left")
    table.add_column("Organization")
    table.add_column("Invoice")
    for name in ("Invoiced", "Oracle", "Unit-seconds", "Oracle"):
        table.add_column(name, justify="right")
    table.add_column("")
    for one in summary.invoices:
        table.add_row(
            one.organization,
            one.reference,
            f"{one.invoiced_total:,.2f} {one.currency}",
            f"{one.expected_total:,.2f} {one.currency}",
            f"{sum(one.invoiced_unit_seconds.values()):,}",
            f"{sum(one.expected_unit_seconds.values()):,}",
            "[green]equal" if one.is_equal else "[bold red]DIFFERENT",
        )
    return table


def _print_unknowable(summary: Summary, console: Console) -> None:
    by_cause: dict[str, list[int]] = {}
    for one in summary.unknowable:
        by_cause.setdefault(one.cause, []).append(one.unit_seconds)
    if not by_cause:
        return
    table = Table(title="What the scrapes could not know (true minus billed)", title_justify="left")
    table.add_column("Cause")
    for name in ("Pods", "Net unit-seconds", "Largest"):
        table.add_column(name, justify="right")
    for cause, values in sorted(by_cause.items()):
        largest = max(values, key=abs)
        table.add_row(cause, str(len(values)), f"{sum(values):,}", f"{largest:,}")
    console.print(table)

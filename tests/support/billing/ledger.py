"""Builders for billing: sealed usage written straight into metering's tables, and prices.

Billing may not write metering's ledger, so nothing here is offered to the product.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from billing.models import Charge, Price, PriceBook, PriceBookAssignment
from billing.services.accrual import WINDOWS_PER_CALL_MAX, accrue_windows
from metering.models import CatalogueVersion, MeteringWindow
from tenants.domain.actors import Actor, ActorKind, system_actor
from tenants.models import Cluster, Organization, Project
from tests.support.builders import (
    AT,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
)
from tests.support.metering.usage_rows import insert_usage

HOUR = timedelta(hours=1)
BOUND_HOURS = 3
"""How long namespaces are bound in months made for tests: only these hours need windows."""
SMALL_GROUP = "H100/1g.10gb"
DORA = Actor(kind=ActorKind.PERSON, id="7", label="dora")
ERIC = Actor(kind=ActorKind.PERSON, id="8", label="eric")
TICK = system_actor("billing.tick")


@dataclass(frozen=True)
class Use:
    """What a pod used in one window."""

    project: Project
    unit_seconds: int = 3600
    owner: str = "carol"
    size: str = "small"
    price_group: str = SMALL_GROUP
    units: int = 1


@dataclass(frozen=True)
class Ledger:
    """An organization with two projects, a cluster, and a book it is billed by."""

    organization: Organization
    llm: Project
    vision: Project
    cluster: Cluster
    book: PriceBook


def make_ledger(
    slug: str = "acme",
    *,
    cluster_slug: str = "hopper",
    bound_hours: int = 744,
    **organization: object,
) -> Ledger:
    """Return an organization whose book has 2.00 EUR for any small unit since October."""
    payer = make_organization(slug, **organization)
    llm, vision = make_project(payer, "llm"), make_project(payer, "vision")
    cluster = Cluster.objects.filter(slug=cluster_slug).first() or make_cluster(cluster_slug)
    bind(cluster, f"{slug}-llm", llm, end_at=MONTH_START + bound_hours * HOUR)
    book = make_book(slug, currency=payer.billing_currency)
    assign(payer, book)
    make_price(book)
    return Ledger(organization=payer, llm=llm, vision=vision, cluster=cluster, book=book)


def make_book(slug: str = "standard", currency: str = "EUR") -> PriceBook:
    """Return an empty price book."""
    return PriceBook.objects.create(slug=slug, name=slug, currency=currency, created_at=AT)


def make_discount_book(slug: str, base: PriceBook, percent: str = "20") -> PriceBook:
    """Return a book without prices of its own."""
    return PriceBook.objects.create(
        slug=slug,
        name=slug,
        currency=base.currency,
        base_book=base,
        discount_percent=Decimal(percent),
        created_at=AT,
    )


def make_price(
    book: PriceBook,
    unit_price: str = "2.00",
    *,
    size: str = "small",
    price_group: str = "*",
    cluster: Cluster | None = None,
    band: str = "",
    begin_at: datetime = MONTH_START,
    end_at: datetime | None = None,
) -> Price:
    """Return a price, by default until further notice."""
    return Price.objects.create(
        price_book=book,
        size=size,
        price_group=price_group,
        cluster=cluster,
        band=band,
        unit_price=Decimal(unit_price),
        valid=DateTimeTZRange(begin_at, end_at),
        published_at=AT,
    )


def assign(
    organization: Organization,
    book: PriceBook,
    *,
    begin_at: datetime = MONTH_START,
    end_at: datetime | None = None,
) -> PriceBookAssignment:
    """Return a price book assignment, by default until further notice."""
    return PriceBookAssignment.objects.create(
        organization=organization,
        price_book=book,
        valid=DateTimeTZRange(begin_at, end_at),
        published_at=AT,
    )


def make_window(cluster: Cluster, start_at: datetime = MONTH_START) -> MeteringWindow:
    """Return a collected window that still takes usage."""
    return MeteringWindow.objects.create(
        cluster=cluster,
        start_at=start_at,
        state="collected",
        not_before=start_at + HOUR,
        as_of=start_at + HOUR,
    )


def add_usage(window: MeteringWindow, uses: Iterable[Use]) -> None:
    """Write usage records of one pod each into an unsealed window."""
    CatalogueVersion.objects.get_or_create(
        version=1, defaults={"rules": [], "digest": "", "created_at": AT}
    )
    with connection.cursor() as cursor:
        cursor.execute("SELECT metering_ensure_partitions(%s, 1)", [window.start_at])
        for number, use in enumerate(uses):
            insert_usage(cursor, _USAGE, _row(window, use, number))


def seal(window: MeteringWindow) -> MeteringWindow:
    """Return the window, sealed."""
    window.state, window.sealed_at = "sealed", AT
    window.save(update_fields=["state", "sealed_at"])
    return window


def sealed_window(
    cluster: Cluster, uses: Iterable[Use] = (), *, start_at: datetime = MONTH_START
) -> MeteringWindow:
    """Return a sealed window with this usage."""
    window = make_window(cluster, start_at)
    add_usage(window, uses)
    return seal(window)


def seal_rest_of_month(cluster: Cluster, hours: int = 744) -> None:
    """Seal every hour of October that has no window yet, empty."""
    there = set(MeteringWindow.objects.filter(cluster=cluster).values_list("start_at", flat=True))
    starts = (MONTH_START + HOUR * n for n in range(hours))
    MeteringWindow.objects.bulk_create(
        MeteringWindow(
            cluster=cluster,
            start_at=start,
            state="sealed",
            not_before=start + HOUR,
            as_of=start + HOUR,
            sealed_at=AT,
        )
        for start in starts
        if start not in there
    )


def accrue_everything(*, at: datetime = AT) -> None:
    """Accrue every sealed window."""
    ids = list(
        MeteringWindow.objects.filter(state="sealed").order_by("pk").values_list("pk", flat=True)
    )
    for first in range(0, len(ids), WINDOWS_PER_CALL_MAX):
        accrue_windows(window_ids=ids[first : first + WINDOWS_PER_CALL_MAX], actor=TICK, at=at)


def charged() -> dict[tuple[int, str, str, str], int]:
    """Return unit-seconds by window, project, price group and unit price."""
    return {
        (c.window_id, c.project.slug, c.price_group, f"{c.unit_price:.2f}"): c.unit_seconds
        for c in Charge.objects.select_related("project")
    }


def _row(window: MeteringWindow, use: Use, number: int) -> dict[str, Any]:
    seconds = use.unit_seconds // use.units
    return {
        "window": window.pk,
        "start": window.start_at,
        "cluster": window.cluster_id,
        "organization": use.project.organization_id,
        "project": use.project.pk,
        "owner": use.owner,
        "uid": str(UUID(int=window.pk << 64 | number)),
        "size": use.size,
        "group": use.price_group,
        "units": use.units,
        "end": window.start_at + timedelta(seconds=seconds),
        "unit_seconds": seconds * use.units,
    }


_USAGE = """
SELECT %(window)s AS window_id, %(start)s AS window_start, %(cluster)s AS cluster_id,
       %(organization)s AS organization_id, %(project)s AS project_id, %(owner)s AS owner,
       'ns' AS namespace, 'pod' AS pod_name, %(uid)s AS pod_uid, 'nvidia_com_gpu' AS resource,
       'node-1' AS node, %(size)s AS size, %(group)s AS price_group, 'whole' AS sharing_mode,
       1 AS share_numerator, 1 AS share_denominator, %(units)s AS units, %(start)s AS begin_at,
       %(end)s AS end_at, %(unit_seconds)s AS unit_seconds, 'running' AS end_kind,
       1 AS catalogue_version
"""


def month_of_use(
    uses: Iterable[tuple[str, int]], slug: str = "acme", **organization: object
) -> Ledger:
    """Return an organization with a sealed, accrued October on a cluster of its own.

    Args:
        uses: Project slug and unit-seconds, all in the first hour; projects are made as needed.
        slug: Of the organization.
        organization: Other fields of it.
    """
    ledger = make_ledger(slug, cluster_slug=f"of-{slug}", bound_hours=BOUND_HOURS, **organization)
    projects = {"llm": ledger.llm, "vision": ledger.vision}
    wanted = list(uses)
    for name, _ in wanted:
        if name not in projects:
            projects[name] = make_project(ledger.organization, name)
    sealed_window(ledger.cluster, [Use(projects[name], seconds) for name, seconds in wanted])
    seal_rest_of_month(ledger.cluster, hours=BOUND_HOURS)
    accrue_everything()
    return ledger

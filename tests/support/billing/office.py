"""The office: the cast with an accrued month, for tests of endpoints."""

from dataclasses import dataclass

from billing.models import BillingPeriod, PriceBook
from tests.support.billing.ledger import (
    BOUND_HOURS,
    HOUR,
    Use,
    accrue_everything,
    assign,
    make_book,
    make_price,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.builders import MONTH_START, bind, make_cluster
from tests.support.cast import Cast, make_cast


@dataclass(frozen=True)
class Office:
    """Acme with an accrued October, Umbrella with one too, and the people of the cast."""

    cast: Cast
    book: PriceBook
    period: BillingPeriod
    foreign_period: BillingPeriod


def make_office() -> Office:
    """Return the office, saved."""
    cast = make_cast()
    cluster = make_cluster()
    book = make_book()
    make_price(book)
    for organization in (cast.acme, cast.umbrella):
        assign(organization, book)
    for namespace, project in (("llm", cast.llm), ("virus", cast.virus)):
        bind(cluster, namespace, project, end_at=MONTH_START + BOUND_HOURS * HOUR)
    sealed_window(cluster, [Use(cast.llm), Use(cast.vision, 1800), Use(cast.virus, 60)])
    seal_rest_of_month(cluster, hours=BOUND_HOURS)
    accrue_everything()
    return Office(
        cast=cast,
        book=book,
        period=BillingPeriod.objects.get(organization=cast.acme, label="2026-10"),
        foreign_period=BillingPeriod.objects.get(organization=cast.umbrella, label="2026-10"),
    )

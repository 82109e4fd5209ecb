"""Fixtures of the flows: a site without prices, and one with."""

from tests.support.billing.ledger import assign, make_book, make_price
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.flows.site import (
    Site,
)
from tests.support.metering.seen import (
    HOUR,
)
from tests.support.shared_rows import shared_rows


@shared_rows
def site() -> Site:
    cast = make_cast()
    hopper = make_cluster(metered_from=HOUR)
    bind(hopper, "team-nlp", cast.llm)
    book = make_book()
    assign(cast.acme, book)
    make_price(book, size="small")
    return Site(cast, hopper, book)


@shared_rows
def priced(site: Site) -> Site:
    for size in ("medium", "large"):
        make_price(site.book, size=size)
    return site

"""Fixtures of the flows: a site, with prices or without, and an estate with a row in every list."""

import logging
from collections.abc import Iterator

import pytest

from tests.support.billing.ledger import assign, make_book, make_price
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.flows.estate import Estate, make_estate
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


@shared_rows
def estate() -> Estate:
    return make_estate()


@pytest.fixture
def unlogged() -> Iterator[None]:
    """Log no line for each of hundreds of refusals."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)

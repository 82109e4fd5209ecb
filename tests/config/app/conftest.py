"""Fixtures of the tenant pages: the office on 2 November, with an invoice, limits and a request."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client

from billing.models import Invoice
from billing.selectors.pricing.cost_estimate import PriceBookEstimator
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import draft_invoice
from billing.services.showback import add_up_changed_days
from quotas.models import QuotaRequest
from tenants.models import Cluster
from tests.support.billing.ledger import DORA, ERIC, make_price
from tests.support.billing.office import Office, make_office
from tests.support.billing.site import SITE_TERMS
from tests.support.billing.wasteful import find
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.metering.waste_world import WasteWorld
from tests.support.quotas.builders import actor_of, make_limit, submit_request
from tests.support.shared_rows import shared_rows


@dataclass(frozen=True)
class Tenancy:
    """The office with Acme's final invoice of October: 2.00 for LLM and 1.00 for Vision."""

    office: Office
    cast: Cast
    invoice: Invoice
    asked: QuotaRequest


@pytest.fixture(autouse=True)
def at_the_moment() -> Iterator[None]:
    """Let it be the moment at which the world was made."""
    with time_machine.travel(AT, tick=False):
        yield


@shared_rows
def tenancy() -> Tenancy:
    """Return the world, made at the moment of the tests."""
    with time_machine.travel(AT, tick=False):
        return make_tenancy()


def make_tenancy() -> Tenancy:
    """Return the world, saved."""
    office = make_office()
    cast = office.cast
    add_up_changed_days()
    make_price(office.book, "2.50", size="large", price_group="H100/whole")
    draft = draft_invoice(period_id=office.period.pk, actor=DORA, at=AT, terms=SITE_TERMS)
    invoice = finalize_invoice(invoice_id=draft.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    make_limit(cast.acme, units=8)
    make_limit(cast.acme, cast.llm, units=4)
    make_limit(cast.acme, cast.vision, units=2)
    make_limit(cast.umbrella, units=9)
    cluster = Cluster.objects.get()
    find(WasteWorld(cast.acme, cast.llm, cluster))
    find(WasteWorld(cast.umbrella, cast.virus, cluster), "hive-0")
    asked = submit_request(
        project=cast.llm,
        size="large",
        requested_units=6,
        justification="A bigger model.",
        estimator=PriceBookEstimator(),
        actor=actor_of(cast.bob),
        at=AT,
    )
    return Tenancy(office=office, cast=cast, invoice=invoice, asked=asked)


def browser_of(user: User) -> Client:
    """Return a browser in which a person is signed in."""
    client = Client()
    client.force_login(user)
    return client

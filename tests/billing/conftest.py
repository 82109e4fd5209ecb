"""Fixtures of billing's endpoints: the office and its draft."""

import pytest

from billing.models import Invoice
from billing.services.invoicing import draft_invoice
from tenants.domain.actors import Actor, ActorKind
from tests.support.billing.office import Office, make_office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT


@pytest.fixture
def office(db: None) -> Office:  # noqa: ARG001 - It is the transaction.
    """Everybody and a month, in a transaction that is rolled back."""
    return make_office()


@pytest.fixture
def draft(office: Office) -> Invoice:
    """Acme's draft, made by somebody outside the cast."""
    drafter = Actor(kind=ActorKind.PERSON, id="999999", label="drafter")
    return draft_invoice(period_id=office.period.pk, actor=drafter, at=AT, terms=SITE_TERMS)

"""Fixtures of billing's endpoints: the office and its draft."""

from billing.models import Invoice
from billing.services.invoicing import draft_invoice
from tenants.domain.actors import Actor, ActorKind
from tests.support.billing.office import Office, make_office
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT
from tests.support.shared_rows import shared_rows


@shared_rows
def office() -> Office:
    """Everybody and a month, in a transaction that is rolled back."""
    return make_office()


@shared_rows
def draft(office: Office) -> Invoice:
    """Acme's draft, made by somebody outside the cast."""
    drafter = Actor(kind=ActorKind.PERSON, id="999999", label="drafter")
    return draft_invoice(period_id=office.period.pk, actor=drafter, at=AT, terms=SITE_TERMS)

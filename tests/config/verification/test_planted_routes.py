"""Issuers, recipients and routes that were changed without an audit entry: `verify` names them."""

import psycopg
import pytest

from billing.models import Issuer, ProjectRoute, Recipient
from billing.services.routing import change_issuer, change_recipient, set_route
from tenants.models import Organization
from tests.support.billing.ledger import DORA
from tests.support.builders import AT
from tests.support.config.planted import unguarded, verify

pytestmark = pytest.mark.usefixtures("world")
PLANTED = {
    "UPDATE billing_issuer SET bank_account = 'DE00'": "The issuer {}",
    "UPDATE billing_issuer SET first_number = 9": "The issuer {}",
    "UPDATE billing_recipient SET address = 'Elsewhere 1'": "The recipient {}",
    "UPDATE billing_projectroute SET recipient_id = (SELECT id FROM billing_recipient)": (
        "The project route {}"
    ),
    "UPDATE billing_projectroute SET purchase_order = 'PO-9'": "The project route {}",
}


@pytest.mark.parametrize("statement", PLANTED)
def test_what_was_changed_without_an_entry_is_named(
    statement: str, owner: psycopg.Connection
) -> None:
    assert verify() == ""
    rows = {
        "The issuer {}": Issuer.objects.get().pk,
        "The recipient {}": Recipient.objects.get().pk,
        "The project route {}": ProjectRoute.objects.get().pk,
    }

    with unguarded(owner):
        owner.execute(statement.encode())

    name = PLANTED[statement]
    assert f"{name.format(rows[name])} is not what was set by the audit trail." in verify()


def test_a_route_that_is_gone_is_named(owner: psycopg.Connection) -> None:
    route = ProjectRoute.objects.get()

    with unguarded(owner):
        owner.execute("DELETE FROM billing_projectroute")

    assert f"The term {route.pk} was set by the audit trail, and is missing." in verify()


def test_what_was_changed_with_entries_is_right() -> None:
    issuer, recipient = Issuer.objects.get(), Recipient.objects.get()
    project = ProjectRoute.objects.get().project
    change_issuer(issuer=issuer, changes={"address": "New Street 1"}, actor=DORA, at=AT)
    change_recipient(recipient=recipient, changes={"name": "Lab: 2"}, actor=DORA, at=AT)
    for order in ("PO-1", "PO-2"):
        set_route(
            project=project,
            issuer=issuer,
            recipient=recipient,
            purchase_order=order,
            actor=DORA,
            at=AT,
        )
    Organization.objects.filter(slug="globex").update(name="Globex: Research")

    assert verify() == ""

    set_route(project=project, issuer=None, recipient=None, actor=DORA, at=AT)
    assert verify() == ""

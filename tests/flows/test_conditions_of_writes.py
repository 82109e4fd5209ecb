"""Every change names the version it was made from, and every POST for money or quota a key."""

import json

import pytest
from django.db import transaction
from rest_framework.test import APIClient

from tenants.models import AuditEntry
from tests.support.digest import ledger_digest
from tests.support.flows.estate import Estate
from tests.support.flows.operations import handler_of, operations, send
from tests.support.tenants.clients import api_client, problem

pytestmark = pytest.mark.usefixtures("unlogged")
BY_IF_MATCH = {
    "PATCH notification-endpoints/pk/",
    "PATCH request-policies/pk/",
    "POST notification-endpoints/pk/close/",
    "DELETE invoices/pk/",
    "DELETE isolation-policies/pk/",
    "DELETE quota-limits/pk/",
    "PATCH clusters/pk/",
    "PATCH export-schedules/pk/",
    "PATCH isolation-policies/pk/",
    "PATCH issuers/pk/",
    "PATCH me/notifications/",
    "PATCH organizations/pk/",
    "PATCH preemption-policies/pk/",
    "PATCH projects/pk/",
    "PATCH quota-limits/pk/",
    "PATCH recipients/pk/",
    "POST clusters/pk/close/",
    "POST export-schedules/pk/close/",
    "POST invoices/pk/finalize/",
    "POST namespace-bindings/pk/close/",
    "POST organizations/pk/close/",
    "POST projects/pk/close/",
    "POST protected-windows/pk/close/",
    "POST quota-grants/pk/end/",
    "POST suspensions/pk/resume/",
    "PUT quota-limits/pk/",
}
BY_KEY = {
    "POST journal-batches/",
    "POST opening-balances/",
    "POST write-offs/",
    "POST write-offs/pk/confirm/",
    "POST payments/",
    "POST payments/import/",
    "POST payments/pk/allocate/",
    "POST payments/pk/refund/",
    "POST payments/pk/reverse/",
    "POST accounting-months/",
    "POST accounting-months/accrue/",
    "POST billing-periods/",
    "POST billing-periods/pk/review/",
    "POST catalogue-versions/",
    "POST credit-proposals/pk/accept/",
    "POST credit-proposals/pk/dismiss/",
    "POST export-schedules/",
    "POST export-schedules/pk/runs/",
    "POST invoices/",
    "POST invoices/pk/finalize/",
    "POST loan-policies/",
    "POST isolation-policies/",
    "POST notification-endpoints/",
    "POST preemption-plans/",
    "POST preemption-plans/pk/execute/",
    "POST preemption-policies/",
    "POST customer-classes/",
    "POST customer-class-memberships/",
    "POST customer-class-memberships/pk/withdraw/",
    "POST price-book-assignments/",
    "POST price-book-assignments/pk/withdraw/",
    "POST price-books/",
    "POST prices/",
    "POST prices/pk/withdraw/",
    "POST price-drafts/",
    "POST price-drafts/pk/publish/",
    "POST price-drafts/pk/reject/",
    "POST minimum-charges/",
    "POST minimum-charges/pk/withdraw/",
    "POST price-calendars/",
    "POST price-calendars/pk/withdraw/",
    "POST tier-schedules/",
    "POST tier-schedules/pk/withdraw/",
    "POST issuers/",
    "POST project-routes/",
    "POST recipients/",
    "POST tax-rates/",
    "POST tax-rates/pk/withdraw/",
    "POST tax-treatments/",
    "POST tax-treatments/pk/withdraw/",
    "POST repricings/",
    "POST repricings/pk/approve/",
    "POST repricings/pk/reject/",
    "POST protected-windows/",
    "POST quota-grants/",
    "POST quota-limits/",
    "POST quota-loans/pk/approve/",
    "POST quota-requests/",
    "POST quota-requests/bulk/",
    "POST quota-requests/renew/",
    "POST request-policies/",
    "POST quota-requests/pk/approve/",
    "POST suspensions/",
    "POST usage-corrections/",
    "POST usage-corrections/pk/approve/",
}
BY_KEY_IF_GIVEN = {
    "POST clusters/",
    "POST invitations/",
    "POST memberships/",
    "POST namespace-bindings/",
    "POST organizations/",
    "POST preemption-plans/pk/stop/",
    "POST projects/",
    "POST quota-loans/pk/decline/",
    "POST disputes/",
    "POST disputes/pk/messages/",
    "POST quota-requests/pk/comments/",
    "POST quota-requests/pk/cancel/",
    "POST quota-requests/pk/reject/",
    "POST service-accounts/",
    "POST usage-corrections/pk/reject/",
}
ENTRIES = {
    "POST preemption-plans/pk/execute/": 2,
    "POST billing-periods/pk/review/": 2,
    "POST price-book-assignments/pk/withdraw/": 2,
    "POST price-drafts/pk/publish/": 2,
    "POST prices/pk/withdraw/": 2,
    "POST quota-loans/pk/approve/": 3,
    "POST quota-requests/pk/approve/": 2,
}
"""An approval is reported, and so is the limit it sets."""
LEADS = {
    "POST quota-requests/",
    "POST quota-requests/bulk/",
    "POST quota-requests/pk/cancel/",
    "POST quota-requests/renew/",
}
"""What takes somebody of the tenant; all else here is the platform's."""


@pytest.fixture
def clients(estate: Estate) -> dict[str, APIClient]:
    """A client that may do it, for each operation of the tables above."""
    frank, dora, bob = (api_client(getattr(estate.cast, n)) for n in ("frank", "dora", "bob"))
    money = (
        "accounting-months",
        "billing-periods",
        "credit-proposals",
        "customer-class",
        "disputes",
        "document-deliveries",
        "export-",
        "invoices",
        "issuers",
        "project-routes",
        "recipients",
        "journal-batches",
        "opening-balances",
        "payments",
        "reminder-stops",
        "price-book-assignments",
        "price-books",
        "price-drafts",
        "prices",
        "repricings",
        "tax-rates",
        "tax-treatments",
        "minimum-charges",
        "price-calendars",
        "tier-schedules",
        "write-offs",
    )
    return {
        operation: bob
        if operation in LEADS
        else dora
        if operation.split(" ")[1].startswith(money)
        else frank
        for operation in BY_IF_MATCH | BY_KEY | BY_KEY_IF_GIVEN
    }


def marked(mark: str, value: object) -> set[str]:
    return {o for o in operations() if getattr(handler_of(o), mark, None) is value}


def test_the_tables_are_what_the_endpoints_say() -> None:
    assert marked("requires_if_match", value=True) == BY_IF_MATCH
    assert marked("idempotency_key_is_required", value=True) == BY_KEY
    assert marked("idempotency_key_is_required", value=False) == BY_KEY_IF_GIVEN
    assert {o for o in operations() if o.startswith(("PUT", "PATCH"))} <= BY_IF_MATCH


def test_a_change_without_a_usable_version_is_refused(
    estate: Estate, clients: dict[str, APIClient]
) -> None:
    before = ledger_digest()
    for operation in sorted(BY_IF_MATCH):
        for etag in ("", "*", 'W/"1"', "1", '"1", "2"', '"0"', '"one"'):
            answer = send(clients[operation], operation, estate.places["own"], **{"If-Match": etag})

            assert problem(answer) == (428, "precondition_required"), (operation, etag)
    assert ledger_digest() == before


def test_a_change_of_another_version_is_refused(
    estate: Estate, clients: dict[str, APIClient]
) -> None:
    before = ledger_digest()
    for operation in sorted(BY_IF_MATCH):
        answer = send(clients[operation], operation, estate.places["own"], **{"If-Match": '"7"'})

        assert problem(answer) == (412, "stale_version"), operation
    assert ledger_digest() == before


def test_a_post_for_money_or_quota_without_a_key_is_refused(
    estate: Estate, clients: dict[str, APIClient]
) -> None:
    before = ledger_digest()
    for operation in sorted(BY_KEY):
        answer = send(
            clients[operation], operation, estate.places["own"], **{"Idempotency-Key": ""}
        )

        assert problem(answer) == (400, "idempotency_key_required"), operation
    assert ledger_digest() == before


def test_the_same_key_takes_effect_once_and_never_for_something_else(
    estate: Estate, clients: dict[str, APIClient]
) -> None:
    own, key = estate.places["own"], {"Idempotency-Key": "again"}
    for operation in sorted(BY_KEY | BY_KEY_IF_GIVEN):
        client, begin = clients[operation], transaction.savepoint()
        entries = AuditEntry.objects.count()

        first = send(client, operation, own, **key)
        after = ledger_digest()
        again = send(client, operation, own, **key)

        assert first.status_code in {200, 201}, (operation, first.content)
        assert AuditEntry.objects.count() == entries + ENTRIES.get(operation, 1), operation
        assert again.status_code == first.status_code, operation
        assert json.loads(again.content) == json.loads(first.content), operation
        assert (again["Idempotent-Replayed"], again.get("ETag")) == ("true", first.get("ETag"))
        assert ledger_digest() == after, operation
        another = "POST prices/" if operation != "POST prices/" else "POST price-books/"
        entries = AuditEntry.objects.count()
        assert problem(send(client, another, own, **key)) == (422, "idempotency_key_reused")
        assert AuditEntry.objects.latest("pk").action == "tenants:idempotency_key:refuse", operation
        assert AuditEntry.objects.count() == entries + 1, operation
        transaction.savepoint_rollback(begin)

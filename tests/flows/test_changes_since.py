"""`updated_from`: only what was added or changed since a time."""

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from rest_framework.test import APIClient

from billing.models import AccrualException, Invoice
from billing.services.ledger.settling import allocate_payment
from metering.models import MeteringException, MeteringWindow, UsageCorrection
from quotas.models import QuotaLimit, QuotaRequest, QuotaSuspension
from tenants.domain.identity.roles import Role
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import DORA, month_of_use
from tests.support.billing.payments import pay
from tests.support.builders import AT, grant, make_user
from tests.support.flows.estate import Estate
from tests.support.flows.operations import handler_view, operations
from tests.support.tenants.clients import api_client

LATER: Final = AT + timedelta(days=300)
PAST, FUTURE = AT.replace(year=2001), AT.replace(year=2201)
RANGE: Final = {
    "window_start_from": "2026-10-01T00:00:00Z",
    "window_start_before": "2026-12-01T00:00:00Z",
}


@pytest.fixture
def frank(estate: Estate) -> APIClient:
    return api_client(estate.cast.frank)


def ids(client: APIClient, noun: str, since: datetime | None = None) -> set[object]:
    """Return the ids of a list, or of what changed since a time."""
    query = {"page_size": "200", **(RANGE if noun == "usage-records" else {})}
    if since is not None:
        query["updated_from"] = since.isoformat()
    answer = client.get(f"/api/v1/{noun}/?{urlencode(query)}")
    assert answer.status_code == 200, answer.content
    return {row["id"] for row in answer.json()["results"]}


def nouns() -> set[str]:
    """Return the lists that can be narrowed so."""
    found = set()
    for operation in operations():
        method, path = operation.split(" ")
        filters = getattr(handler_view(operation), "filterset_class", None)
        if method == "GET" and path.count("/") == 1 and filters is not None:
            found |= {path.rstrip("/")} if "updated_from" in filters.base_filters else set()
    return found


def test_everything_changed_since_long_ago_and_nothing_will_have(frank: APIClient) -> None:
    assert nouns() == {
        "accrual-exceptions",
        "charges",
        "disputes",
        "document-deliveries",
        "invoices",
        "journal-batches",
        "journal-entries",
        "metering-exceptions",
        "opening-balances",
        "payments",
        "quota-limits",
        "quota-requests",
        "reminder-stops",
        "reminders",
        "repricings",
        "suspensions",
        "usage-corrections",
        "usage-records",
        "write-offs",
    }
    for noun in nouns():
        assert ids(frank, noun, PAST) == ids(frank, noun) != set(), noun
        assert ids(frank, noun, FUTURE) == set(), noun


def test_a_row_is_listed_by_its_latest_change(estate: Estate, frank: APIClient) -> None:
    own = estate.places["own"]
    changed: dict[str, tuple[Any, dict[str, Any]]] = {
        "metering-exceptions": (MeteringException, {"state": "resolved", "resolved_at": LATER}),
        "quota-limits": (QuotaLimit, {"changed_at": LATER}),
        "quota-requests": (QuotaRequest, {"state": "cancelled", "decided_at": LATER}),
        "invoices": (Invoice, {"drafted_at": LATER}),
        "accrual-exceptions": (AccrualException, {"resolved_at": LATER}),
        "suspensions": (QuotaSuspension, {"end_at": LATER}),
    }
    for noun, (model, fields) in changed.items():
        assert ids(frank, noun, LATER - timedelta(days=1)) == set(), noun
        model._default_manager.filter(pk=own[noun]).update(**fields)  # noqa: SLF001 - Django's documented model meta.

        found = ids(frank, noun, LATER)

        assert {str(one) for one in found} == {str(own[noun])}, noun
        assert ids(frank, noun, LATER + timedelta(seconds=1)) == set(), noun


@pytest.mark.django_db
def test_a_row_is_listed_by_the_latest_change_of_what_is_shown_within() -> None:
    user = make_user("finance")
    grant(user, Role.FINANCE_ADMIN)
    client = api_client(user)
    final = finalize(draft(month_of_use([("llm", 3600)]).organization, "2026-10"))
    payment, other = pay("B1"), pay("B2")
    assert ids(client, "payments") == {str(payment.pk), str(other.pk)}
    assert ids(client, "payments", LATER) == set()

    allocate_payment(payment_id=payment.pk, document_id=final.pk, actor=DORA, at=LATER)

    assert ids(client, "payments", LATER) == {str(payment.pk)}
    assert ids(client, "payments", LATER + timedelta(seconds=1)) == set()


def test_rows_of_a_ledger_are_ordered_by_when_they_were_written(frank: APIClient) -> None:
    for noun, column in {
        "charges": "created_at",
        "document-deliveries": "recorded_at",
        "journal-entries": "posted_at",
        "opening-balances": "recorded_at",
        "payments": "recorded_at",
    }.items():
        listed = frank.get(f"/api/v1/{noun}/?ordering={column}&page_size=200").json()["results"]
        back = frank.get(f"/api/v1/{noun}/?ordering=-{column}&page_size=200").json()["results"]

        assert [row["id"] for row in back] == [row["id"] for row in reversed(listed)]
        assert [row[column] for row in listed] == sorted(row[column] for row in listed) != [], noun


def test_a_usage_record_is_listed_since_its_seal_or_its_correction(
    estate: Estate, frank: APIClient
) -> None:
    sealed_at = MeteringWindow.objects.exclude(sealed_at=None).latest("sealed_at").sealed_at
    assert sealed_at is not None

    assert ids(frank, "usage-records", sealed_at)
    assert ids(frank, "usage-records", sealed_at + timedelta(seconds=1)) == set()
    assert UsageCorrection.objects.filter(pk=estate.places["own"]["usage-corrections"]).exists()

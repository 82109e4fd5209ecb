"""`updated_from`: only what was added or changed since a time."""

from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

import pytest
from rest_framework.test import APIClient

from billing.models import Invoice
from metering.models import MeteringException, MeteringWindow, UsageCorrection
from quotas.models import QuotaLimit, QuotaRequest
from tests.support.builders import AT
from tests.support.flows.estate import Estate, make_estate
from tests.support.flows.operations import handler_view, operations
from tests.support.tenants.clients import api_client

LATER: Final = AT + timedelta(days=300)
PAST, FUTURE = AT.replace(year=2001), AT.replace(year=2201)
RANGE: Final = {
    "window_start_from": "2026-10-01T00:00:00Z",
    "window_start_before": "2026-12-01T00:00:00Z",
}


@pytest.fixture
def estate(db: None) -> Estate:  # noqa: ARG001 - It is the transaction.
    return make_estate()


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
        "invoices",
        "metering-exceptions",
        "quota-limits",
        "quota-requests",
        "usage-corrections",
        "usage-records",
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
    }
    for noun, (model, fields) in changed.items():
        assert ids(frank, noun, LATER - timedelta(days=1)) == set(), noun
        model._default_manager.filter(pk=own[noun]).update(**fields)  # noqa: SLF001 - Django's documented model meta.

        found = ids(frank, noun, LATER)

        assert {str(one) for one in found} == {str(own[noun])}, noun
        assert ids(frank, noun, LATER + timedelta(seconds=1)) == set(), noun


def test_a_usage_record_is_listed_since_its_seal_or_its_correction(
    estate: Estate, frank: APIClient
) -> None:
    sealed_at = MeteringWindow.objects.exclude(sealed_at=None).latest("sealed_at").sealed_at
    assert sealed_at is not None

    assert ids(frank, "usage-records", sealed_at)
    assert ids(frank, "usage-records", sealed_at + timedelta(seconds=1)) == set()
    assert UsageCorrection.objects.filter(pk=estate.places["own"]["usage-corrections"]).exists()

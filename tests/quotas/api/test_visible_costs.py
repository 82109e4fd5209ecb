"""The cost of a request over REST: for readers of the project's prices, else null."""

from typing import Any
from uuid import uuid4

import pytest
from rest_framework.test import APIClient

from quotas.access import READ_REQUEST, SUBMIT_REQUEST
from quotas.models import QuotaRequest
from quotas.services.requests.news import DECIDERS
from tenants.domain.identity.roles import CAPABILITIES, Role
from tenants.models import NotificationDelivery
from tests.quotas.api.conftest import Answer, Caller
from tests.support.cast import Cast
from tests.support.quotas.asking import FixedEstimator, ask
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client

URL = "/api/v1/quota-requests/"
COST = {
    "currency": "EUR",
    "at_full_use": "800.00",
    "at_last_use": "400.00",
    "price_group": "H100/whole",
    "note": "",
}
READ_PRICE = "billing:price:read"


@shared_rows
def request_of_bob(cast: Cast) -> QuotaRequest:
    return ask(cast, estimator=FixedEstimator())


def costs(client: APIClient, request: QuotaRequest) -> list[object]:
    listed = client.get(URL).json()["results"]
    return [row["cost"] for row in (*listed, client.get(f"{URL}{request.pk}/").json())]


def post(client: APIClient, path: str, body: dict[str, Any]) -> Answer:
    key = {"Idempotency-Key": str(uuid4())}
    answer: Answer = client.post(f"{URL}{path}", body, format="json", headers=key)
    return answer


def requested(cast: Cast) -> dict[str, Any]:
    return {"project": str(cast.llm.pk), "size": "large", "requested_units": 8}


@pytest.mark.parametrize("name", ["bob", "alice", "dora", "frank", "ann"])
def test_who_reads_prices_is_reported_the_cost(
    caller: Caller, request_of_bob: QuotaRequest, name: str
) -> None:
    assert costs(caller(name), request_of_bob) == [COST, COST]


def test_a_member_reads_the_request_without_its_cost(
    caller: Caller, request_of_bob: QuotaRequest
) -> None:
    assert costs(caller("carol"), request_of_bob) == [None, None]
    reported = caller("carol").get(f"{URL}{request_of_bob.pk}/").json()
    assert (reported["requested_units"], reported["justification"]) == (8, "A bigger model.")
    request_of_bob.refresh_from_db()
    assert request_of_bob.cost == COST


@pytest.mark.parametrize("name", ["bob", "alice"])
def test_anyone_who_may_ask_is_shown_a_cost_preview(cast: Cast, caller: Caller, name: str) -> None:
    previewed = post(caller(name), "preview/", requested(cast))

    assert previewed.status_code == 200
    assert previewed.json()["cost"]["note"] == "The organization has no price book today."


def test_a_member_is_shown_no_preview(cast: Cast, caller: Caller) -> None:
    assert post(caller("carol"), "preview/", requested(cast)).status_code == 403


@pytest.mark.parametrize(("scopes", "is_reported"), [((), False), ((READ_PRICE,), True)])
def test_a_token_is_reported_as_much_as_its_scopes(
    cast: Cast,
    request_of_bob: QuotaRequest,
    scopes: tuple[str, ...],
    is_reported: bool,  # noqa: FBT001 - A parameter of the test.
) -> None:
    client_for = api_client(cast.bob, scopes=(READ_REQUEST, SUBMIT_REQUEST, *scopes))

    read = client_for.get(f"{URL}{request_of_bob.pk}/")
    previewed = post(client_for, "preview/", requested(cast))
    asked = post(client_for, "", {**requested(cast), "justification": "More."})

    assert [one.status_code for one in (read, previewed, asked)] == [200, 200, 201]
    assert read.json()["cost"] == (COST if is_reported else None)
    assert (previewed.json()["cost"] is None, asked.json()["cost"] is None) == (
        not is_reported,
    ) * 2
    assert previewed.json()["decided_by"] == ["organization_admin"]


def test_news_with_a_cost_go_to_roles_that_read_prices_only(
    cast: Cast, request_of_bob: QuotaRequest
) -> None:
    rows = NotificationDelivery.objects.filter(notification__text__contains="Cost a month")

    assert request_of_bob.cost["at_full_use"] == "800.00"
    assert [row.address.partition("@")[0] for row in rows] == ["alice"]
    assert all(READ_PRICE in CAPABILITIES[role] for role in DECIDERS.values())
    assert READ_PRICE not in CAPABILITIES[Role.MEMBER]
    assert cast.carol.email not in {row.address for row in rows}

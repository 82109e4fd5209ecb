"""Write-offs over REST: proposed, confirmed by another person, reversed; hidden from tenants."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from billing.models import Invoice, WriteOff
from tenants.domain.identity.roles import Role
from tests.support.billing.late import finalize
from tests.support.billing.office import Office
from tests.support.builders import grant, make_user
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

URL = "/api/v1/write-offs/"


@shared_rows
def final(draft: Invoice) -> Invoice:
    return finalize(draft)


@pytest.fixture
def eric() -> APIClient:
    user = make_user("eric")
    grant(user, Role.FINANCE_ADMIN)
    return api_client(user)


def post(client: APIClient, path: str, body: dict[str, Any], key: str = "one") -> Any:  # noqa: ANN401
    return client.post(f"{URL}{path}", body, format="json", headers={"Idempotency-Key": key})


def test_a_write_off_is_confirmed_by_another_person_and_reversed(
    office: Office, final: Invoice, eric: APIClient
) -> None:
    dora, alice = api_client(office.cast.dora), api_client(office.cast.alice)
    asked = {"document": str(final.pk), "amount": "2.00", "reason": "Insolvent."}

    above = post(dora, "", {**asked, "amount": "3.01"}, key="above")
    assert problem(above) == (409, "write_off_too_large")
    made = post(dora, "", asked).json()
    assert (made["state"], made["amount"]["amount"]) == ("proposed", "2.00")
    own = post(dora, f"{made['id']}/confirm/", {}, key="own")
    assert problem(own) == (403, "write_off_needs_another_person")
    assert post(eric, f"{made['id']}/confirm/", {}).json()["state"] == "posted"

    seen = alice.get(f"/api/v1/invoices/{final.pk}/").json()
    assert seen["open_amount"]["amount"] == "1.00"
    assert problem(alice.get(f"{URL}{made['id']}/")) == (404, "not_found")
    assert problem(post(alice, "", asked)) == (403, "forbidden")
    trail = "/api/v1/audit-entries/?object_kind=write_off"
    assert alice.get(trail).json()["results"] == []
    assert len(dora.get(trail).json()["results"]) == 2
    done = post(dora, f"{made['id']}/reverse/", {"reason": "They paid."}).json()
    assert (done["state"], done["reversal_reason"]) == ("reversed", "They paid.")


def test_all_that_is_open_is_written_off_without_an_amount(
    office: Office, final: Invoice, eric: APIClient
) -> None:
    dora = api_client(office.cast.dora)
    made = post(dora, "", {"document": str(final.pk), "reason": "Insolvent."}).json()
    post(eric, f"{made['id']}/confirm/", {"note": "Court's letter."})

    listed = dora.get("/api/v1/invoices/?payment_status=written_off").json()["results"]

    assert [one["id"] for one in listed] == [str(final.pk)]
    assert WriteOff.objects.get().decision_note == "Court's letter."

"""An address is registered once for each key, and never without one."""

import json

import pytest
from django.db import transaction

from tenants.models import AuditEntry, NotificationDelivery, NotificationEndpoint
from tenants.services.notifications.outbox import notify
from tests.support.builders import AT
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

PATH = "/api/v1/notification-endpoints/"
DELIVERIES = "/api/v1/notification-deliveries/"
TOKEN = "xoxb-hunter2-is-no-good-at-all"
WHOLE = f"https://hooks.example.com/services/T0/{TOKEN}?key=hunter3"
SHOWN = "https://hooks.example.com/services/T0/\N{HORIZONTAL ELLIPSIS}?\N{HORIZONTAL ELLIPSIS}"


@shared_rows
def cast() -> Cast:
    return make_cast()


def body_of(cast: Cast, address: str = "gpu@example.com") -> dict[str, object]:
    return {
        "organization": str(cast.acme.pk),
        "kind": "mail",
        "address": address,
        "events": ["quotas:request:*"],
    }


@pytest.mark.parametrize("key", [None, "", "two words", "k" * 256])
def test_an_address_is_not_registered_without_a_usable_key(cast: Cast, key: str | None) -> None:
    entries = AuditEntry.objects.count()
    headers = {} if key is None else {"Idempotency-Key": key}

    answer = api_client(cast.alice).post(PATH, body_of(cast), format="json", headers=headers)

    assert problem(answer) == (400, "idempotency_key_required")
    reported = json.loads(answer.content)
    assert reported["detail"] == "The Idempotency-Key is missing or not usable."
    assert not NotificationEndpoint.objects.exists()
    assert AuditEntry.objects.count() == entries + 1  # The token of the endpoint itself.


def test_the_same_key_registers_one_address_and_is_answered_the_same(cast: Cast) -> None:
    client_for, key = api_client(cast.alice), {"Idempotency-Key": "once"}

    first = client_for.post(PATH, body_of(cast), format="json", headers=key)
    again = client_for.post(PATH, body_of(cast), format="json", headers=key)

    made = NotificationEndpoint.objects.get()
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert (first.json()["id"], first.json()["address"]) == (str(made.pk), "gpu@example.com")
    assert ("Idempotent-Replayed" in first, again["Idempotent-Replayed"]) == (False, "true")


def test_the_key_of_one_address_registers_no_other(cast: Cast) -> None:
    client_for, key = api_client(cast.alice), {"Idempotency-Key": "once"}
    client_for.post(PATH, body_of(cast), format="json", headers=key)

    other = client_for.post(PATH, body_of(cast, "b@example.com"), format="json", headers=key)

    assert problem(other) == (422, "idempotency_key_reused")
    assert [e.address for e in NotificationEndpoint.objects.all()] == ["gpu@example.com"]


def hook_of(cast: Cast) -> dict[str, object]:
    return {
        **body_of(cast, WHOLE),
        "kind": "webhook",
        "secret_reference": "env:WEBHOOK_SECRET_ACME",
    }


def test_an_address_with_tokens_is_stored_whole_and_answered_without_them(cast: Cast) -> None:
    client_for, key = api_client(cast.frank), {"Idempotency-Key": "once"}

    first = client_for.post(PATH, hook_of(cast), format="json", headers=key)
    again = client_for.post(PATH, hook_of(cast), format="json", headers=key)

    assert NotificationEndpoint.objects.get().address == WHOLE
    assert [one.status_code for one in (first, again)] == [201, 201]
    assert [one.json()["address"] for one in (first, again)] == [SHOWN, SHOWN]


@pytest.mark.parametrize("name", ["alice", "ann", "frank"])
def test_nobody_reads_the_tokens_of_an_address(cast: Cast, name: str) -> None:
    endpoint = NotificationEndpoint.objects.create(
        **{**hook_of(cast), "organization": cast.acme}, created_at=AT
    )
    with transaction.atomic():
        notify(
            event="quotas:request:approved",
            organization_id=cast.acme.pk,
            subject="8 large for LLM: approved",
            text="Yes.",
            at=AT,
        )
    delivery, client_for = NotificationDelivery.objects.get(), api_client(getattr(cast, name))

    for path in (PATH, f"{PATH}{endpoint.pk}/", DELIVERIES, f"{DELIVERIES}{delivery.pk}/"):
        reported = client_for.get(path).json()
        (row,) = reported.get("results", [reported])
        assert row["address"] == SHOWN, path


def test_events_are_changed_without_a_change_to_the_address(cast: Cast) -> None:
    endpoint = NotificationEndpoint.objects.create(
        **{**hook_of(cast), "organization": cast.acme}, created_at=AT
    )

    reported = api_client(cast.frank).patch(
        f"{PATH}{endpoint.pk}/",
        {"events": ["quotas:*:*"]},
        format="json",
        headers={"If-Match": '"1"'},
    )

    endpoint.refresh_from_db()
    assert (reported.status_code, reported.json()["address"]) == (200, SHOWN)
    assert (endpoint.events, endpoint.address) == (["quotas:*:*"], WHOLE)

"""An address is registered once for each key, and never without one."""

import json

import pytest

from tenants.models import AuditEntry, NotificationEndpoint
from tests.cast import Cast, make_cast
from tests.tenants.api.doors import open_door, problem

PATH = "/api/v1/notification-endpoints/"


@pytest.fixture
def cast(db: None) -> Cast:  # noqa: ARG001 - The database comes first.
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

    answer = open_door(cast.alice).post(PATH, body_of(cast), format="json", headers=headers)

    assert problem(answer) == (400, "idempotency_key_required")
    told = json.loads(answer.content)
    assert told["detail"] == "The Idempotency-Key is missing or not usable."
    assert not NotificationEndpoint.objects.exists()
    assert AuditEntry.objects.count() == entries + 1  # The token of the door itself.


def test_the_same_key_registers_one_address_and_is_answered_the_same(cast: Cast) -> None:
    door, key = open_door(cast.alice), {"Idempotency-Key": "once"}

    first = door.post(PATH, body_of(cast), format="json", headers=key)
    again = door.post(PATH, body_of(cast), format="json", headers=key)

    made = NotificationEndpoint.objects.get()
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert (first.json()["id"], first.json()["address"]) == (str(made.pk), "gpu@example.com")
    assert ("Idempotent-Replayed" in first, again["Idempotent-Replayed"]) == (False, "true")


def test_the_key_of_one_address_registers_no_other(cast: Cast) -> None:
    door, key = open_door(cast.alice), {"Idempotency-Key": "once"}
    door.post(PATH, body_of(cast), format="json", headers=key)

    other = door.post(PATH, body_of(cast, "b@example.com"), format="json", headers=key)

    assert problem(other) == (422, "idempotency_key_reused")
    assert [e.address for e in NotificationEndpoint.objects.all()] == ["gpu@example.com"]

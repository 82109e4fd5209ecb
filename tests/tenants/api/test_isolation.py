"""Who may see what: every caller at every endpoint, and nothing of others in any answer."""

from collections.abc import Iterator
from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.support.tenants.clients import api_client, problem
from tests.support.tenants.world import CALLERS, CANARIES, World, caller

# Who gets 200 for one object: by resource and place, in the order of CALLERS after anonymous.
# Columns: carol bob alice bot mallory dora ann frank.
SEEN = {
    ("organizations", "own"): "yyyynyyy",
    ("organizations", "sibling"): "yyyynyyy",
    ("organizations", "other"): "nnnnyyyy",
    ("projects", "own"): "yyyynyyy",
    ("projects", "sibling"): "nnynnyyy",
    ("projects", "other"): "nnnnyyyy",
    ("clusters", "own"): "nnnnnyyy",
    ("clusters", "sibling"): "nnnnnyyy",
    ("clusters", "other"): "nnnnnyyy",
    ("namespace-bindings", "own"): "nyynnyyy",
    ("namespace-bindings", "sibling"): "nnynnyyy",
    ("namespace-bindings", "other"): "nnnnyyyy",
    ("service-accounts", "own"): "nnynnyyy",
    ("service-accounts", "sibling"): "nnynnyyy",
    ("service-accounts", "other"): "nnnnyyyy",
    ("memberships", "own"): "yyynnyyy",
    ("memberships", "sibling"): "nnynnyyy",
    ("memberships", "other"): "nnnnyyyy",
    ("api-tokens", "own"): "nnyynnny",
    ("api-tokens", "sibling"): "nnyynnny",
    ("api-tokens", "other"): "nnnnynny",
    ("audit-entries", "own"): "nnynnyyy",
    ("audit-entries", "sibling"): "nnynnyyy",
    ("audit-entries", "other"): "nnnnyyyy",
}
RESOURCES = sorted({resource for resource, _ in SEEN})


@pytest.mark.parametrize("resource", RESOURCES)
def test_each_caller_sees_exactly_what_its_roles_reach(world: World, resource: str) -> None:
    seen: dict[str, str] = {"own": "", "sibling": "", "other": ""}
    for name in CALLERS[1:]:
        client = caller(world, name)
        for place in seen:
            response = client.get(f"/api/v1/{resource}/{world.ids[resource][place]}/")
            seen[place] += "y" if response.status_code == 200 else "n"
            if response.status_code != 200:
                assert problem(response) == (404, "not_found")

    assert seen == {place: SEEN[resource, place] for place in seen}


@pytest.mark.parametrize("name", CALLERS[1:])
def test_what_may_not_be_seen_answers_as_what_does_not_exist(world: World, name: str) -> None:
    client = caller(world, name)
    for resource in RESOURCES:
        missing = client.get(f"/api/v1/{resource}/{world.ids[resource]['nonexistent']}/")
        hidden = client.get(f"/api/v1/{resource}/{world.ids[resource]['other']}/")

        assert missing.status_code == 404
        if hidden.status_code == 404:
            assert hidden.content == missing.content


@pytest.mark.parametrize("name", ["carol", "bob", "alice", "bot"])
def test_no_answer_shows_a_word_of_another_organization(world: World, name: str) -> None:
    client = caller(world, name)

    for response in _everything(client, world):
        text = response.content.decode().lower()
        assert not [word for word in CANARIES if word in text], response.request["PATH_INFO"]


def _everything(client: APIClient, world: World) -> Iterator[Any]:
    """Yield the answers to lists, filters, single objects and the caller's own page."""
    yield client.get("/api/v1/me/")
    for resource in RESOURCES:
        yield client.get(f"/api/v1/{resource}/")
        for pk in world.ids[resource].values():
            yield client.get(f"/api/v1/{resource}/{pk}/")
    other = world.cast.umbrella.pk
    for resource in ("projects", "memberships", "service-accounts", "audit-entries"):
        yield client.get(f"/api/v1/{resource}/", {"organization": str(other)})


@pytest.mark.parametrize("resource", [*RESOURCES, "me"])
@pytest.mark.usefixtures("world")
def test_nobody_gets_anything_without_credentials(resource: str) -> None:
    client = api_client()

    response = client.get(f"/api/v1/{resource}/")

    assert problem(response) == (401, "unauthenticated")
    assert response["WWW-Authenticate"] == 'Bearer realm="gpu-ledger"'
    assert "remedy" in response.json()


@pytest.mark.parametrize("organization", ["umbrella", "nonexistent"])
def test_a_filter_does_not_tell_whether_an_organization_exists(
    world: World, organization: str
) -> None:
    pk = world.ids["organizations"]["other" if organization == "umbrella" else "nonexistent"]

    response = caller(world, "alice").get("/api/v1/projects/", {"organization": str(pk)})

    assert (response.status_code, response.json()["results"]) == (200, [])


def test_a_member_is_not_reported_the_billing_details_of_the_organization(world: World) -> None:
    world.cast.acme.tax_id = "DE123"
    world.cast.acme.save()

    carol = caller(world, "carol").get(f"/api/v1/organizations/{world.cast.acme.pk}/").json()
    alice = caller(world, "alice").get(f"/api/v1/organizations/{world.cast.acme.pk}/").json()

    assert (carol["tax_id"], carol["billing_email"], alice["tax_id"]) == (None, None, "DE123")

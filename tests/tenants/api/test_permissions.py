"""Who may do what: every caller at every write, and nothing written when refused."""

import json
from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from tenants.models import AuditEntry, NamespaceBinding
from tests.support.tenants.clients import problem
from tests.support.tenants.world import CALLERS, World, caller

# Writes: path, body, and who gets which status; every other caller gets 404 (401 for nobody).
WRITES = {
    "make an organization": (
        "POST",
        "/api/v1/organizations/",
        {"slug": "new", "name": "New", "billing_currency": "EUR"},
        {"frank": 201},
        403,
    ),
    "rename the organization": (
        "PATCH",
        "/api/v1/organizations/{acme}/",
        {"name": "Renamed"},
        {"frank": 200, "mallory": 404},
        403,
    ),
    "make a project": (
        "POST",
        "/api/v1/projects/",
        {"organization": "{acme}", "slug": "new", "name": "New"},
        {"frank": 201, "alice": 201, "mallory": 404},
        403,
    ),
    "rename a project": (
        "PATCH",
        "/api/v1/projects/{llm}/",
        {"name": "Renamed"},
        {"frank": 200, "alice": 200, "mallory": 404},
        403,
    ),
    "rename the sibling": (
        "PATCH",
        "/api/v1/projects/{vision}/",
        {"name": "Renamed"},
        {"frank": 200, "alice": 200, "dora": 403, "ann": 403},
        404,
    ),
    "register a cluster": (
        "POST",
        "/api/v1/clusters/",
        {"slug": "new", "name": "New", "metered_from": "2026-10-01T00:00:00Z"},
        {"frank": 201},
        403,
    ),
    "bind a namespace": (
        "POST",
        "/api/v1/namespace-bindings/",
        {
            "cluster": "{hopper}",
            "namespace": "new",
            "project": "{llm}",
            "valid_from": "2026-10-01T00:00:00Z",
        },
        {"frank": 201, "mallory": 404},
        403,
    ),
    "give a role": (
        "POST",
        "/api/v1/memberships/",
        {"role": "project_lead", "user": "carol", "project": "{llm}"},
        {"frank": 201, "alice": 201, "bob": 201, "mallory": 404},
        403,
    ),
    "invite a stranger": (
        "POST",
        "/api/v1/invitations/",
        {"email": "stranger@example.test", "role": "member", "project": "{llm}"},
        {"frank": 201, "alice": 201, "bob": 201, "mallory": 404},
        403,
    ),
    "give a platform role": (
        "POST",
        "/api/v1/memberships/",
        {"role": "platform_admin", "user": "mallory"},
        {"frank": 409},
        403,
    ),
    "make a service account": (
        "POST",
        "/api/v1/service-accounts/",
        {"organization": "{acme}", "slug": "new", "name": "New"},
        {"frank": 201, "alice": 201, "mallory": 404},
        403,
    ),
    "issue a token of a service account": (
        "POST",
        "/api/v1/api-tokens/",
        {"name": "ci", "expires_at": "{tomorrow}", "service_account": "{bot}"},
        {"frank": 201, "alice": 201, "dora": 403, "ann": 403},
        404,
    ),
    "close a service account": (
        "POST",
        "/api/v1/service-accounts/{bot}/close/",
        {},
        {"frank": 200, "alice": 200, "dora": 403, "ann": 403},
        404,
    ),
}


@pytest.mark.parametrize("call", sorted(WRITES))
def test_each_write_is_allowed_to_exactly_whose_roles_reach_it(world: World, call: str) -> None:
    allowed, otherwise = WRITES[call][3:]
    expected = {name: allowed.get(name, otherwise) for name in CALLERS} | {"anonymous": 401}

    answers = {name: answered(world, call, name) for name in CALLERS}

    assert {name: status for name, (status, _, _) in answers.items()} == expected
    for name, (status, written, is_noted) in answers.items():
        assert written == (1 if status < 300 or is_noted else 0), name


def answered(world: World, call: str, name: str) -> tuple[int, int, bool]:
    """Send a write as a caller and take back what it did.

    Returns:
        Its status, how many audit entries it wrote, and whether a second person has to confirm it.
    """
    method, path, body = WRITES[call][:3]
    names = {
        "acme": world.cast.acme.pk,
        "llm": world.cast.llm.pk,
        "vision": world.cast.vision.pk,
        "hopper": world.ids["clusters"]["own"],
        "bot": world.bot.pk,
        "tomorrow": (timezone.now() + timedelta(days=1)).isoformat(),
    }
    filled = {key: value.format(**names) for key, value in body.items()}
    client, before = caller(world, name), transaction.savepoint()
    audited = AuditEntry.objects.count()
    response = client.generic(
        method, path.format(**names), json.dumps(filled), "application/json", HTTP_IF_MATCH='"1"'
    )
    written = AuditEntry.objects.count() - audited
    transaction.savepoint_rollback(before)
    return response.status_code, written, b"second_person_required" in response.content


def test_a_binding_of_another_organization_is_not_ended_by_its_id(world: World) -> None:
    pk = world.ids["namespace-bindings"]["other"]

    response = caller(world, "alice").post(
        f"/api/v1/namespace-bindings/{pk}/close/",
        {"valid_until": "2030-01-01T00:00:00Z"},
        HTTP_IF_MATCH='"1"',
    )

    assert problem(response) == (404, "not_found")
    assert NamespaceBinding.objects.get(pk=pk).valid.upper is None

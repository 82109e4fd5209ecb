"""Tests of each resource's way from made to closed, over REST."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.domain.hours import floor_hour
from tenants.models import AuditEntry, Membership
from tests.support.builders import make_cluster
from tests.support.cast import Cast
from tests.support.references import reference_to
from tests.support.tenants.clients import api_client, problem


@pytest.fixture
def frank(cast: Cast) -> APIClient:
    return api_client(cast.frank)


def test_an_organization_is_made_filled_emptied_and_closed(frank: APIClient) -> None:
    made = frank.post(
        "/api/v1/organizations/",
        {"slug": "new", "name": "New", "billing_currency": "CHF", "time_zone": "Europe/Zurich"},
    )
    path = made["Location"]
    project = frank.post(
        "/api/v1/projects/", {"organization": made.json()["id"], "slug": "p", "name": "P"}
    )
    early = frank.post(f"{path}close/", HTTP_IF_MATCH='"1"')
    frank.post(f"{project['Location']}close/", {}, HTTP_IF_MATCH='"1"')
    closed = frank.post(f"{path}close/", HTTP_IF_MATCH='"1"')

    assert (made.status_code, made["ETag"]) == (201, '"1"')
    assert problem(early) == (409, "organization_has_open_projects")
    assert early.json()["facts"] == {"open_projects": 1}
    assert early.json()["remedy"] == "Close its projects first."
    assert (closed.status_code, closed.json()["state"], closed["ETag"]) == (200, "closed", '"2"')
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True))[-4:] == [
        "tenants:organization:create",
        "tenants:project:create",
        "tenants:project:close",
        "tenants:organization:close",
    ]


def test_a_cluster_is_registered_changed_and_closed(frank: APIClient) -> None:
    made = frank.post(
        "/api/v1/clusters/",
        {
            "slug": "hopper",
            "name": "Hopper",
            "metered_from": "2026-10-01T02:00:00+02:00",
            "offered_resources": ["nvidia.com/gpu"],
            "label_aliases": {"hostname": ["Hostname"]},
        },
    )
    changed = frank.patch(
        made["Location"], {"scrape_interval_seconds": 15}, HTTP_IF_MATCH=made["ETag"]
    )
    closed = frank.post(f"{made['Location']}close/", HTTP_IF_MATCH=changed["ETag"])

    assert made.json()["metered_from"] == "2026-10-01T00:00:00Z"
    assert made.json()["label_aliases"] == {"hostname": ["Hostname"]}
    assert changed.json()["scrape_interval_seconds"] == 15
    assert closed.json()["state"] == "closed"


def test_an_offered_name_that_no_rule_sizes_is_answered_with_what_to_do(frank: APIClient) -> None:
    names = ["claim/gpu.nvidia.com", "claim/h100.example.com", "nvidia.com/gpu"]
    body = {"slug": "hopper", "name": "Hopper", "metered_from": "2026-10-01T00:00:00Z"}

    made = frank.post("/api/v1/clusters/", {**body, "offered_resources": names})
    read = frank.get(made["Location"])
    changed = frank.patch(
        made["Location"], {"offered_resources": names[:1]}, HTTP_IF_MATCH=made["ETag"]
    )

    (warning,) = made.json()["warnings"]
    assert warning.startswith("No rule of the size catalogue names claim/h100.example.com:")
    assert '"resources": ["claim/h100.example.com"]' in warning
    assert read.json()["warnings"] == [warning]
    assert changed.json()["warnings"] == []


def test_a_namespace_is_bound_refused_twice_and_ended(cast: Cast, frank: APIClient) -> None:
    cluster = make_cluster()
    body = {
        "cluster": str(cluster.pk),
        "namespace": "llm",
        "project": str(cast.llm.pk),
        "valid_from": "2026-10-01T00:00:00Z",
        "default_owner": "carol",
    }
    end = floor_hour(timezone.now()) + timedelta(hours=1)

    made = frank.post("/api/v1/namespace-bindings/", body)
    twice = frank.post("/api/v1/namespace-bindings/", body)
    ended = frank.post(
        f"{made['Location']}close/", {"valid_until": end.isoformat()}, HTTP_IF_MATCH='"1"'
    )
    during = frank.get("/api/v1/namespace-bindings/", {"valid_at": "2026-10-15T12:00:00Z"})
    before = frank.get("/api/v1/namespace-bindings/", {"valid_at": "2026-09-30T23:59:59Z"})

    assert (made.json()["valid_until"], made.json()["default_owner"]) == (None, "carol")
    assert problem(twice) == (409, "namespace_already_bound")
    assert twice.json()["remedy"].startswith("End the other binding")
    assert ended.json()["valid_until"] == end.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert [len(r.json()["results"]) for r in (during, before)] == [1, 0]


def test_an_unknown_owner_is_blamed_on_its_field(cast: Cast, frank: APIClient) -> None:
    response = frank.post(
        "/api/v1/namespace-bindings/",
        {
            "cluster": str(make_cluster().pk),
            "namespace": "llm",
            "project": str(cast.llm.pk),
            "valid_from": "2026-10-01T00:00:00Z",
            "default_owner": "nobody",
        },
    )

    assert problem(response) == (404, "not_found")
    assert response.json()["field"] == "default_owner"


def test_a_role_is_given_and_taken(cast: Cast) -> None:
    bob = api_client(cast.bob)

    made = bob.post(
        "/api/v1/memberships/",
        {"role": "project_lead", "user": "carol", "project": str(cast.llm.pk)},
    )
    taken = bob.delete(made["Location"])
    again = bob.delete(made["Location"])

    assert (made.status_code, made.json()["user"]) == (201, "carol")
    assert taken.status_code == 204
    assert problem(again) == (404, "not_found")


def test_the_last_platform_admin_cannot_go_over_rest(cast: Cast, frank: APIClient) -> None:
    own = Membership.objects.get(user=cast.frank)

    response = frank.delete(f"/api/v1/memberships/{own.pk}/")

    assert problem(response) == (409, "last_platform_admin")
    assert Membership.objects.filter(pk=own.pk).exists()


def test_a_service_account_works_with_its_token_until_it_is_closed(cast: Cast) -> None:
    alice = api_client(cast.alice)
    account = alice.post(
        "/api/v1/service-accounts/",
        {"organization": str(cast.acme.pk), "slug": "ci", "name": "CI"},
    )
    role = alice.post(
        "/api/v1/memberships/",
        {
            "role": "member",
            "service_account": account.json()["id"],
            "project": str(cast.llm.pk),
        },
    )
    token = alice.post(
        "/api/v1/api-tokens/",
        {
            "name": "ci",
            "expires_at": (timezone.now() + timedelta(days=1)).isoformat(),
            "service_account": account.json()["id"],
        },
    )
    bot = APIClient()
    bot.credentials(HTTP_AUTHORIZATION=f"Bearer {token.json()['token']}")
    before = bot.get("/api/v1/projects/")
    alice.post(f"{account['Location']}close/")

    assert role.json()["service_account"] == account.json()["id"]
    assert [row["slug"] for row in before.json()["results"]] == ["llm"]
    assert problem(bot.get("/api/v1/projects/")) == (401, "unauthenticated")


def test_a_service_account_issues_no_token_for_a_person(cast: Cast) -> None:
    alice = api_client(cast.alice)
    account = alice.post(
        "/api/v1/service-accounts/",
        {"organization": str(cast.acme.pk), "slug": "ci", "name": "CI"},
    ).json()
    expires_at = (timezone.now() + timedelta(days=1)).isoformat()
    token = alice.post(
        "/api/v1/api-tokens/",
        {"name": "ci", "expires_at": expires_at, "service_account": account["id"]},
    ).json()["token"]
    bot = APIClient()
    bot.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")

    response = bot.post("/api/v1/api-tokens/", {"name": "x", "expires_at": expires_at})

    assert problem(response) == (403, "token_not_yours_to_issue")


def test_the_trail_is_read_by_object_and_shows_the_leaf(cast: Cast, frank: APIClient) -> None:
    frank.patch(f"/api/v1/projects/{cast.llm.pk}/", {"name": "LLM 2"}, HTTP_IF_MATCH='"1"')

    (entry,) = (
        api_client(cast.alice)
        .get("/api/v1/audit-entries/", {"object_kind": "project", "object_id": str(cast.llm.pk)})
        .json()["results"]
    )

    assert (entry["action"], entry["actor_label"]) == ("tenants:project:update", "frank")
    assert entry["facts"] == {"changed": {"name": ["LLM", "LLM 2"]}}
    assert len(bytes.fromhex(entry["leaf"])) == 32


def test_a_secret_that_is_pinned_goes_to_no_other_host(frank: APIClient, tmp_path: Path) -> None:
    (tmp_path / "token.host").write_text("hopper.example.test:6443", encoding="utf-8")
    secret = reference_to(tmp_path / "token", kind="file")
    own, other = "https://hopper.example.test:6443", "https://listener.example.test"
    body = {"slug": "new", "name": "New", "metered_from": floor_hour(timezone.now()).isoformat()}
    body["credential_reference"] = secret

    refused = frank.post("/api/v1/clusters/", {**body, "kubernetes_url": other})
    made = frank.post("/api/v1/clusters/", {**body, "kubernetes_url": own})
    moved = frank.patch(
        made["Location"],
        {"kubernetes_url": other, "credential_reference": secret},
        headers={"If-Match": '"1"'},
    )

    assert (refused.status_code, made.status_code, moved.status_code) == (422, 201, 422)
    for answer in (refused, moved):
        assert answer.json()["field"] == "credential_reference"
        assert answer.json()["problems"][0]["code"] == "secret_of_another_host"
        assert "token.host" in answer.json()["problems"][0]["message"]


def test_a_cluster_is_watched_once_it_can_be_reached(frank: APIClient) -> None:
    cluster = make_cluster(kubernetes_url="")
    path = f"/api/v1/clusters/{cluster.pk}/"

    refused = frank.patch(path, {"is_watched": True}, headers={"If-Match": '"1"'})
    watched = frank.patch(
        path,
        {"is_watched": True, "credential_reference": "in-cluster"},
        headers={"If-Match": '"1"'},
    )

    assert refused.status_code == 422
    assert refused.json()["problems"][0]["code"] == "not_reachable"
    assert watched.status_code == 200
    assert watched.json()["is_watched"] is True
    assert frank.get(path).json()["is_watched"] is True

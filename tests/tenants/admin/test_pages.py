"""Tests of the admin: who sees which page, and that writing goes through services."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tenants.models import (
    ApiToken,
    AuditEntry,
    Membership,
    NamespaceBinding,
    Organization,
    Project,
    ServiceAccount,
)
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.tenants.desk import enter

TABLES = (
    "organization",
    "project",
    "membership",
    "cluster",
    "namespacebinding",
    "serviceaccount",
    "apitoken",
    "auditentry",
    "idempotencyrecord",
)


ACCOUNTED = {"billing_currency": "EUR", "time_zone": "UTC", "language": "en"}
"""What the form of an organization asks for besides."""


def text_of(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("table", TABLES)
def test_every_table_is_listed_searched_and_opened(cast: Cast, table: str) -> None:
    binding = bind(make_cluster(), "llm", cast.llm)
    client = enter(cast.frank)
    client.post("/admin/auth/user/", {"action": "deactivate_people", "_selected_action": "0"})

    page = text_of(client, f"/admin/tenants/{table}/")
    found = text_of(client, f"/admin/tenants/{table}/?q=a")

    assert "unfold" in page
    assert "Forbidden" not in found
    assert text_of(client, f"/admin/tenants/namespacebinding/{binding.pk}/change/")


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "mallory"])
def test_a_role_of_one_organization_opens_no_page(cast: Cast, name: str) -> None:
    client = enter(getattr(cast, name))

    for table in TABLES:
        assert client.get(f"/admin/tenants/{table}/").status_code == 403


def test_an_auditor_reads_and_nobody_offers_a_change(cast: Cast) -> None:
    client = enter(cast.ann)
    path = f"/admin/tenants/organization/{cast.acme.pk}/change/"

    page = text_of(client, path)
    posted = client.post(path, {"name": "Changed"})

    assert 'name="_save"' not in page
    assert posted.status_code == 403
    assert client.get("/admin/tenants/organization/add/").status_code == 403
    assert Organization.objects.get(pk=cast.acme.pk).name == "Acme"


def test_an_organization_is_made_by_the_service_as_the_signed_in_person(cast: Cast) -> None:
    response = enter(cast.frank).post(
        "/admin/tenants/organization/add/",
        {
            "slug": "new",
            "name": "New",
            "billing_currency": "EUR",
            "time_zone": "UTC",
            "language": "en",
        },
    )

    assert response.status_code == 302
    made = Organization.objects.get(slug="new")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id, entry.actor_label) == (
        "tenants:organization:create",
        str(made.pk),
        "frank",
    )


def test_refusals_of_the_service_stand_beside_their_fields(cast: Cast) -> None:
    page = enter(cast.frank).post(
        "/admin/tenants/organization/add/",
        {
            "slug": "acme",
            "name": "New",
            "billing_currency": "EUR",
            "time_zone": "Mars/Olympus",
            "language": "en",
        },
    )
    taken = enter(cast.frank).post(
        "/admin/tenants/organization/add/",
        {
            "slug": "acme",
            "name": "New",
            "billing_currency": "EUR",
            "time_zone": "UTC",
            "language": "en",
        },
    )

    assert "is not an IANA time zone" in page.content.decode()
    assert "Choose another slug." in taken.content.decode()
    assert Organization.objects.count() == 2
    assert not AuditEntry.objects.exists()


def test_a_project_is_changed_by_the_service_with_old_and_new_in_the_trail(cast: Cast) -> None:
    response = enter(cast.frank).post(
        f"/admin/tenants/project/{cast.llm.pk}/change/", {"name": "LLM", "cost_center": "C1"}
    )

    assert response.status_code == 302
    changed = Project.objects.get(pk=cast.llm.pk)
    assert (changed.cost_center, changed.version) == ("C1", 2)
    assert AuditEntry.objects.get().facts == {"changed": {"cost_center": ["", "C1"]}}


def test_a_cluster_is_registered_and_changed(cast: Cast) -> None:
    client = enter(cast.frank)
    fields = {
        "slug": "hopper",
        "name": "Hopper",
        "metered_from_0": "2026-10-01",
        "metered_from_1": "00:00:00",
        "scrape_interval_seconds": "30",
        "offered_resources": '["nvidia.com/gpu", "amd.com/gpu"]',
        "label_aliases": "{}",
        "metric_aliases": "{}",
        "admission_mode": "off",
        "admission_on_failure": "allow",
        "trusted_controllers": "[]",
        "quota_target": "resource_quota",
    }
    made = client.post("/admin/tenants/cluster/add/", fields)
    warned = client.get("/admin/tenants/cluster/").content.decode()
    entry = AuditEntry.objects.get()
    changed = client.post(
        f"/admin/tenants/cluster/{entry.object_id}/change/",
        {**fields, "offered_resources": '["gpu"]'},
    )

    assert made.status_code == 302
    assert "No rule of the size catalogue names amd.com/gpu" in warned
    assert "No rule of the size catalogue names nvidia.com/gpu" not in warned
    assert "extended resource name" in changed.content.decode()


def test_a_namespace_is_bound_and_ended_by_buttons(cast: Cast) -> None:
    cluster = make_cluster()
    client = enter(cast.frank)
    made = client.post(
        "/admin/tenants/namespacebinding/add/",
        {
            "cluster": str(cluster.pk),
            "namespace": "llm",
            "project": str(cast.llm.pk),
            "valid_from_0": "2026-10-01",
            "valid_from_1": "00:00:00",
        },
    )
    binding = NamespaceBinding.objects.get()
    client.post(
        "/admin/tenants/namespacebinding/",
        {"action": "end_bindings", "_selected_action": str(binding.pk)},
    )

    assert made.status_code == 302
    binding.refresh_from_db()
    assert timezone.now() < binding.valid.upper <= timezone.now() + timedelta(hours=1)


def test_a_button_shows_what_was_refused_and_does_the_rest(cast: Cast) -> None:
    empty = Organization.objects.create(
        slug="empty", name="Empty", billing_currency="EUR", created_at=AT
    )

    page = enter(cast.frank).post(
        "/admin/tenants/organization/",
        {
            "action": "close_organizations",
            "_selected_action": [str(empty.pk), str(cast.acme.pk)],
        },
        follow=True,
    )

    empty.refresh_from_db()
    assert empty.state == "closed"
    assert Organization.objects.get(pk=cast.acme.pk).state == "active"
    assert "Close its projects first." in page.content.decode()


def test_a_button_is_nothing_for_who_may_only_look(cast: Cast) -> None:
    enter(cast.ann).post(
        "/admin/tenants/membership/",
        {
            "action": "take_roles",
            "_selected_action": str(Membership.objects.get(user=cast.carol).pk),
        },
    )

    assert Membership.objects.filter(user=cast.carol).exists()


def test_a_role_is_given_and_taken(cast: Cast) -> None:
    client = enter(cast.frank)
    made = client.post(
        "/admin/tenants/membership/add/",
        {"role": "member", "user": str(cast.mallory.pk), "project": str(cast.llm.pk)},
    )
    pk = Membership.objects.get(user=cast.mallory, role="member").pk
    client.post("/admin/tenants/membership/", {"action": "take_roles", "_selected_action": str(pk)})

    assert made.status_code == 302
    assert not Membership.objects.filter(pk=pk).exists()


def token_form(client: Client, account: ServiceAccount) -> dict[str, str]:
    """Return the form that issues a token to a service account, filled in."""
    opened = text_of(client, "/admin/tenants/apitoken/add/")
    return {
        "service_account": str(account.pk),
        "name": "ci",
        "expires_at_0": (timezone.now() + timedelta(days=5)).strftime("%Y-%m-%d"),
        "expires_at_1": "00:00:00",
        "scopes": "metering:usage:read",
        "key": re.findall(r'name="key" value="([^"]+)"', opened)[0],
    }


def test_a_token_is_shown_once_and_never_with_its_digest(cast: Cast) -> None:
    account = ServiceAccount.objects.create(
        organization=cast.acme, slug="bot", name="Bot", created_at=AT
    )
    client = enter(cast.frank)

    page = client.post("/admin/tenants/apitoken/add/", token_form(client, account))
    token = ApiToken.objects.get()
    again = text_of(client, f"/admin/tenants/apitoken/{token.pk}/change/")

    found = re.search(rf"gl_{token.prefix}_([0-9a-f]{{64}})", page.content.decode())
    assert found is not None
    assert "no-store" in page["Cache-Control"]
    assert found[1] not in again
    assert bytes(token.digest).hex() not in again
    assert token.scopes == ["metering:usage:read"]


def test_reloading_the_page_with_a_new_token_issues_no_second_one(cast: Cast) -> None:
    account = ServiceAccount.objects.create(
        organization=cast.acme, slug="bot", name="Bot", created_at=AT
    )
    client = enter(cast.frank)
    form = token_form(client, account)

    client.post("/admin/tenants/apitoken/add/", form)
    reloaded = client.post("/admin/tenants/apitoken/add/", form).content.decode()
    forged = client.post("/admin/tenants/apitoken/add/", {**form, "key": "x"}).content.decode()

    assert "This form issued its token before" in reloaded
    assert "This form is not from this page" in forged
    assert ApiToken.objects.count() == 1


def test_nobody_deletes_anything(cast: Cast) -> None:
    client = enter(cast.frank)

    for path in (
        f"tenants/organization/{cast.acme.pk}",
        f"tenants/project/{cast.llm.pk}",
        f"auth/user/{cast.carol.pk}",
    ):
        assert client.post(f"/admin/{path}/delete/", {"post": "yes"}).status_code == 403

    assert User.objects.filter(pk=cast.carol.pk).exists()

"""Decisions of the platform's people on German pages: requests, limits, exceptions and accounts."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from metering.models import MeteringException
from quotas.models import QuotaLimit, QuotaRequest, QuotaSuspension
from tenants.models import (
    ApiToken,
    AuditEntry,
    Cluster,
    Membership,
    NamespaceBinding,
    Notification,
    Organization,
)
from tests.support.builders import make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.german import GERMAN, english_in, text_of
from tests.support.metering.alike import excepted, hour_of, stray
from tests.support.metering.seen import HOUR
from tests.support.quotas.asking import FixedEstimator, ask
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows

REQUESTS = "/admin/quotas/quotarequest/"
LIMITS = "/admin/quotas/quotalimit/"
EXCEPTIONS = "/admin/metering/meteringexception/"


@shared_rows
def cast() -> Cast:
    people = make_cast()
    User.objects.update(is_staff=True)
    return people


@pytest.fixture
def frank(cast: Cast) -> Client:
    """Return the platform's person, who reads German."""
    client = Client()
    client.force_login(cast.frank)
    client.defaults |= GERMAN
    return client


@pytest.fixture
def cluster() -> Cluster:
    return make_cluster(metered_from=HOUR)


def shown(client: Client, path: str, **form: object) -> str:
    """Return the text of a page, after a step if a form is given; no text of it is English."""
    answer = client.post(path, form, follow=True) if form else client.get(path)
    assert answer.status_code == 200
    text = text_of(answer)
    assert english_in(text) == []
    return text


def press(client: Client, table: str, action: str, key: object, note: str = "") -> str:
    return shown(client, table, action=action, note=note, _selected_action=str(key))


def test_a_quota_request_is_read_and_rejected(cast: Cast, frank: Client) -> None:
    make_limit(cast.acme, units=6)
    make_limit(cast.acme, cast.llm, units=5)
    asked = ask(cast, estimator=FixedEstimator())

    text = shown(frank, f"{REQUESTS}{asked.pk}/change/")
    assert "Large auf jedem GPU-Modell in jedem Cluster" in text
    assert "5, davon 0 von Pods belegt" in text
    assert "800,00 EUR" in text
    done = shown(frank, f"{REQUESTS}{asked.pk}/reject/", text="Zu viel.")

    assert "Erledigt." in done
    assert "Ablehnen" not in done
    assert QuotaRequest.objects.get(pk=asked.pk).state == "rejected"
    entry = AuditEntry.objects.filter(object_kind="quota_request").latest("occurred_at", "pk")
    assert entry.action == "quotas:request:reject"
    assert Notification.objects.get(event="quotas:request:rejected").subject.endswith("rejected")


def test_requests_are_approved_from_the_list(cast: Cast, frank: Client) -> None:
    make_limit(cast.acme, units=16)
    asked = ask(cast, estimator=FixedEstimator())

    assert "1 Kontingentantrag" in shown(frank, REQUESTS)
    assert "ist genehmigt." in press(frank, REQUESTS, "approve_requests", asked.pk)


def test_a_refused_approval_is_marked_as_english(cast: Cast, frank: Client) -> None:
    make_limit(cast.acme, units=6)
    asked = ask(cast, estimator=FixedEstimator())

    page = frank.post(f"{REQUESTS}{asked.pk}/approve/", {"text": ""}, follow=True).content.decode()

    assert '<span lang="en">' in page
    assert "limit is 6" in page
    assert QuotaRequest.objects.get(pk=asked.pk).state == "submitted"


def test_limits_are_listed_and_removed(cast: Cast, frank: Client, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=8)
    other = make_limit(cast.umbrella, units=3)
    QuotaLimit.objects.filter(pk=other.pk).update(limit_units=None)
    QuotaLimit.objects.filter(pk=limit.pk).update(
        model_group="H100", cluster=cluster, burst_units=2
    )

    text = shown(frank, LIMITS)
    assert f"8 Large, nur H100, auf {cluster.slug}, +2 Burst" in text
    assert "unbegrenzt Large" in text
    assert "ist entfernt." in press(frank, LIMITS, "remove_limits", limit.pk)


def test_a_form_says_in_german_what_is_missing(cast: Cast, frank: Client) -> None:
    form = {"scope": "organization", "organization": str(cast.acme.pk), "size": "large"}

    text = shown(frank, f"{LIMITS}add/", **form)

    assert "Geben Sie eine Zahl ein, oder schalten Sie „Unbegrenzt“ ein." in text
    assert not QuotaLimit.objects.exists()


def test_a_tenant_is_suspended_and_resumed(cast: Cast, frank: Client) -> None:
    table = "/admin/quotas/quotasuspension/"
    form = {"organization": str(cast.acme.pk), "reason": "Rückstand."}

    added = shown(frank, f"{table}add/", **form)
    (row,) = QuotaSuspension.objects.all()

    assert "gesperrt" in added.lower()
    assert "alle Projekte" in added
    assert "bis zur Aufhebung" in added
    assert "ist aufgehoben." in press(frank, table, "resume", row.pk)


def test_an_incident_is_settled_exception_by_exception(frank: Client, cluster: Cluster) -> None:
    for hour in (0, 1):
        excepted(hour_of(cluster, hour), "invalid_request", subject="pod-1 gpu", held=3600)
    found = MeteringException.objects.first()
    assert found is not None
    page = f"{EXCEPTIONS}incidents/{found.incident}/"

    queue = shown(frank, EXCEPTIONS)
    assert "Offene Vorfälle" in queue
    assert "Prüfen Sie die Spezifikation des Pods" in queue
    assert "Alle nicht abrechnen" in shown(frank, page)
    done = shown(frank, page, settle="unbilled", note="Falsch angefordert.")

    assert "2 Ausnahmen sind abgeschlossen und nicht abgerechnet." in done
    assert "Von diesem Vorfall ist nichts mehr offen." in done
    assert set(MeteringException.objects.values_list("state", flat=True)) == {"resolved"}


def test_a_namespace_is_bound_after_its_bill_was_shown(
    cast: Cast, frank: Client, cluster: Cluster
) -> None:
    found = stray(hour_of(cluster, 0), "pod-0")
    page = f"{EXCEPTIONS}{found.pk}/remedy/"

    looked = shown(frank, f"{page}?project={cast.llm.pk}")
    assert "1 Stunde ist noch nicht versiegelt: Sie wird abgerechnet" in looked
    assert "Was dann geschieht" in looked
    done = shown(frank, page, project=str(cast.llm.pk), bind="1")

    assert f"stray gehört ab dieser Stunde zu {cast.llm.name}." in done
    assert NamespaceBinding.objects.get(namespace="stray").project == cast.llm


def test_an_exception_is_resolved_from_the_list(frank: Client, cluster: Cluster) -> None:
    found = stray(hour_of(cluster, 0), "pod-0")

    refused = frank.post(
        EXCEPTIONS, {"action": "resolve_exceptions", "_selected_action": str(found.pk)}, follow=True
    ).content.decode()
    assert '<span lang="en">' in refused
    done = press(frank, EXCEPTIONS, "resolve_exceptions", found.pk, note="Nicht unsere.")

    assert "ist abgeschlossen." in done
    assert MeteringException.objects.get().resolution == "Nicht unsere."


def test_people_roles_and_tokens_are_kept_on_german_pages(cast: Cast, frank: Client) -> None:
    people, roles = "/admin/auth/user/", "/admin/tenants/membership/"
    tokens = "/admin/tenants/apitoken/"
    role = Membership.objects.get(user=cast.carol)

    assert "ist deaktiviert." in press(frank, people, "deactivate_people", cast.mallory.pk)
    assert "wurde entzogen." in press(frank, roles, "take_roles", role.pk)
    assert "API-Tokens" in shown(frank, tokens)
    assert "Der Text eines Tokens wird einmal gezeigt" in shown(frank, tokens)
    assert not ApiToken.objects.exists()
    assert "Prüfprotokoll" in shown(frank, "/admin/tenants/auditentry/")


def test_an_organization_is_changed_in_german(cast: Cast, frank: Client) -> None:
    page = f"/admin/tenants/organization/{cast.acme.pk}/change/"

    text = shown(frank, page)
    assert "Abrechnungswährung" in text
    assert "Kostenstelle" in text
    refused = frank.post(
        "/admin/tenants/organization/",
        {"action": "close_organizations", "_selected_action": str(cast.acme.pk)},
        follow=True,
    ).content.decode()
    assert '<span lang="en">' in refused
    assert Organization.objects.get(pk=cast.acme.pk).state == "active"

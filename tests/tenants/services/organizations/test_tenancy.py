"""Tests of writing organizations, projects and service accounts."""

import pytest

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError, InvalidInputError
from tenants.domain.refusals import (
    OpenBindingsError,
    OpenProjectsError,
    OrganizationClosedError,
    SlugTakenError,
    StaleVersionError,
)
from tenants.models import AuditEntry, Organization, Project, ServiceAccount
from tenants.services.identity.tokens import create_service_account
from tenants.services.organizations import (
    close_organization,
    close_project,
    create_organization,
    create_project,
    update_organization,
    update_project,
)
from tests.support.builders import (
    AT,
    MONTH_START,
    bind,
    make_cluster,
    make_organization,
    make_project,
)

pytestmark = pytest.mark.django_db
SEED = system_actor("seed")


def test_a_new_organization_leaves_one_audit_entry() -> None:
    acme = create_organization(
        slug="acme",
        name="Acme",
        billing_currency="EUR",
        time_zone="Europe/Berlin",
        actor=SEED,
        at=AT,
    )

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_kind, entry.object_id, entry.organization_id) == (
        "tenants:organization:create",
        "organization",
        str(acme.pk),
        acme.pk,
    )
    assert entry.facts == {
        "slug": "acme",
        "billing_currency": "EUR",
        "time_zone": "Europe/Berlin",
    }
    assert (entry.occurred_at, entry.actor_kind, entry.actor_id) == (AT, "system", "seed")


def test_every_problem_of_a_new_organization_is_reported_at_once() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        create_organization(
            slug="Not a slug",
            name="",
            billing_currency="euro",
            time_zone="Mars/Olympus",
            billing_email="nobody",
            actor=SEED,
            at=AT,
        )

    assert {(p.field, p.code) for p in refusal.value.problems} == {
        ("slug", "invalid"),
        ("name", "blank"),
        ("billing_currency", "max_length"),
        ("billing_currency", "invalid"),
        ("billing_email", "invalid"),
        ("time_zone", "unknown_time_zone"),
    }
    assert (Organization.objects.count(), AuditEntry.objects.count()) == (0, 0)


@pytest.mark.parametrize("zone", ["", "localtime", "+02:00", "../etc/passwd", "europe/berlin"])
def test_only_zones_of_the_iana_database_are_billed(zone: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        create_organization(
            slug="acme", name="Acme", billing_currency="EUR", time_zone=zone, actor=SEED, at=AT
        )

    assert "unknown_time_zone" in {p.code for p in refusal.value.problems}


@pytest.mark.parametrize("currency", ["EUO", "XAU", "DEM"])
def test_no_organization_is_billed_in_letters_that_are_no_currency(currency: str) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        create_organization(slug="acme", name="Acme", billing_currency=currency, actor=SEED, at=AT)

    (found,) = refusal.value.problems
    assert (found.field, found.code) == ("billing_currency", "unknown_currency")
    assert found.message == f'"{currency}" is not an active currency of ISO 4217, such as "EUR".'
    assert (Organization.objects.count(), AuditEntry.objects.count()) == (0, 0)


def test_a_slug_is_used_once() -> None:
    make_organization("acme")

    with pytest.raises(SlugTakenError) as refusal:
        create_organization(slug="acme", name="Other", billing_currency="EUR", actor=SEED, at=AT)

    assert (refusal.value.code, refusal.value.field) == ("slug_taken", "slug")
    assert (Organization.objects.count(), AuditEntry.objects.count()) == (1, 0)


def test_a_change_shows_old_and_new_and_counts_the_version() -> None:
    acme = make_organization("acme", cost_center="A1")

    changed = update_organization(
        organization=acme,
        changes={"cost_center": "B2", "name": "Acme"},
        expected_version=1,
        actor=SEED,
        at=AT,
    )

    assert (changed.cost_center, changed.version) == ("B2", 2)
    assert AuditEntry.objects.get().facts == {"changed": {"cost_center": ["A1", "B2"]}}


def test_a_change_to_what_holds_already_is_no_change() -> None:
    acme = make_organization("acme")

    same = update_organization(organization=acme, changes={"name": "Acme"}, actor=SEED, at=AT)

    assert same.version == 1
    assert not AuditEntry.objects.exists()


def test_a_change_from_an_older_version_is_refused() -> None:
    acme = make_organization("acme", version=3)

    with pytest.raises(StaleVersionError) as refusal:
        update_organization(
            organization=acme, changes={"name": "B"}, expected_version=2, actor=SEED, at=AT
        )

    assert refusal.value.status == 412
    acme.refresh_from_db()
    assert (acme.name, acme.version) == ("Acme", 3)


@pytest.mark.parametrize("field", ["slug", "billing_currency", "time_zone", "state", "version"])
def test_what_bills_depend_on_is_not_editable(field: str) -> None:
    with pytest.raises(ValueError, match="not editable"):
        update_organization(
            organization=make_organization(), changes={field: "x"}, actor=SEED, at=AT
        )


def test_an_organization_closes_after_its_projects() -> None:
    acme = make_organization()
    llm = make_project(acme)

    with pytest.raises(OpenProjectsError) as refusal:
        close_organization(organization=acme, actor=SEED, at=AT)
    close_project(project=llm, actor=SEED, at=AT)
    closed = close_organization(organization=acme, actor=SEED, at=AT)

    assert refusal.value.facts == {"open_projects": 1}
    assert closed.state == "closed"
    assert [e.action for e in AuditEntry.objects.order_by("id")] == [
        "tenants:project:close",
        "tenants:organization:close",
    ]


def test_closing_twice_changes_nothing() -> None:
    acme = make_organization()

    close_organization(organization=acme, actor=SEED, at=AT)
    again = close_organization(organization=acme, actor=SEED, at=AT)

    assert again.version == 2
    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize("make", [create_project, create_service_account])
def test_a_closed_organization_takes_nothing_new(make: object) -> None:
    acme = make_organization(state="closed")

    with pytest.raises(OrganizationClosedError):
        make(organization=acme, slug="x", name="X", actor=SEED, at=AT)  # type: ignore[operator]

    assert not Project.objects.exists()
    assert not ServiceAccount.objects.exists()


@pytest.mark.parametrize("make", [create_project, create_service_account])
def test_a_slug_is_used_once_in_an_organization_and_again_in_another(make: object) -> None:
    acme, umbrella = make_organization("acme"), make_organization("umbrella")
    for organization in (acme, umbrella):
        make(organization=organization, slug="x", name="X", actor=SEED, at=AT)  # type: ignore[operator]

    with pytest.raises(DomainError) as refusal:
        make(organization=acme, slug="x", name="X", actor=SEED, at=AT)  # type: ignore[operator]

    assert refusal.value.code == "slug_taken"


def test_a_project_closes_when_no_namespace_is_bound_to_it_any_more() -> None:
    llm = make_project(make_organization())
    cluster = make_cluster()
    bind(cluster, "past", llm, begin_at=MONTH_START, end_at=AT)
    later = bind(cluster, "open", llm)

    with pytest.raises(OpenBindingsError) as refusal:
        close_project(project=llm, actor=SEED, at=AT)
    later.valid = (MONTH_START, AT)
    later.save(update_fields=["valid"])
    closed = close_project(project=llm, actor=SEED, at=AT)

    assert refusal.value.facts == {"bound_namespaces": 1}
    assert closed.state == "closed"


def test_a_project_is_described_anew_at_a_known_version() -> None:
    llm = make_project(make_organization())

    changed = update_project(
        project=llm, changes={"cost_center": "C3"}, expected_version=1, actor=SEED, at=AT
    )

    assert (changed.cost_center, changed.version) == ("C3", 2)
    with pytest.raises(ValueError, match="not editable"):
        update_project(project=llm, changes={"organization": None}, actor=SEED, at=AT)

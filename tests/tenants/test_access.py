"""Tests of what an actor reaches: the sets other apps use as subqueries, and single objects."""

from dataclasses import replace
from functools import partial
from uuid import UUID

import pytest
from pytest_django import DjangoAssertNumQueries

from tenants.access import (
    access_organization,
    access_project,
    access_seen,
    audit_entries_visible_to,
    clusters_visible_to,
    memberships_visible_to,
    organizations_visible_to,
    projects_visible_to,
    require_capability,
)
from tenants.domain.actors import Actor, ActorKind, Grant, system_actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identity.roles import Role
from tenants.models import Organization, Project
from tenants.selectors.actors import actor_of_user
from tests.support.builders import make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NOBODY = UUID(int=0)


@shared_rows
def cast() -> Cast:
    return make_cast()


def slugs(rows: object) -> list[str]:
    return sorted(rows.values_list("slug", flat=True))  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "organizations", "projects"),
    [
        ("carol", ["acme"], ["llm"]),
        ("bob", ["acme"], ["llm"]),
        ("alice", ["acme"], ["llm", "vision"]),
        ("mallory", ["umbrella"], ["virus"]),
        ("ann", ["acme", "umbrella"], ["llm", "virus", "vision"]),
    ],
)
def test_reading_reaches_as_far_as_the_roles(
    cast: Cast, name: str, organizations: list[str], projects: list[str]
) -> None:
    actor = actor_of_user(getattr(cast, name))

    assert slugs(organizations_visible_to(actor)) == organizations
    assert slugs(projects_visible_to(actor)) == projects


@pytest.mark.parametrize(
    ("name", "expected"),
    [("carol", []), ("bob", []), ("alice", ["acme"]), ("dora", ["acme", "umbrella"])],
)
def test_another_capability_must_cover_the_organization_itself(
    cast: Cast, name: str, expected: list[str]
) -> None:
    actor = actor_of_user(getattr(cast, name))

    assert slugs(organizations_visible_to(actor, "billing:invoice:read")) == expected


def test_sets_are_subqueries_of_one_statement(
    cast: Cast, django_assert_num_queries: object
) -> None:
    alice = actor_of_user(cast.alice)

    with django_assert_num_queries(1):  # type: ignore[operator]
        found = Project.objects.filter(
            organization__in=organizations_visible_to(alice, "quotas:limit:read")
        )
        assert slugs(found) == ["llm", "vision"]


def test_a_person_with_roles_in_two_places_sees_each_row_once(cast: Cast) -> None:
    actor = Actor(
        kind=ActorKind.PERSON,
        id="9",
        label="x",
        grants=(
            Grant(Role.ORGANIZATION_ADMIN, organization_id=cast.acme.pk),
            Grant(Role.MEMBER, project_id=cast.llm.pk),
            Grant(Role.MEMBER, project_id=cast.virus.pk),
        ),
    )

    assert slugs(projects_visible_to(actor)) == ["llm", "virus", "vision"]
    assert slugs(organizations_visible_to(actor)) == ["acme", "umbrella"]
    assert slugs(organizations_visible_to(actor, "quotas:limit:read")) == ["acme"]


@pytest.mark.usefixtures("cast")
def test_the_service_itself_sees_everything() -> None:
    tick = system_actor("metering.tick")

    assert slugs(projects_visible_to(tick)) == ["llm", "virus", "vision"]
    assert memberships_visible_to(tick).count() == 7


def test_a_role_of_an_organization_opens_no_cluster(cast: Cast) -> None:
    make_cluster("hopper")

    assert slugs(clusters_visible_to(actor_of_user(cast.alice))) == []
    assert slugs(clusters_visible_to(actor_of_user(cast.frank))) == ["hopper"]


def test_scopes_of_a_token_narrow_every_set(cast: Cast) -> None:
    held = actor_of_user(cast.ann)
    narrow = Actor(
        kind=held.kind,
        id=held.id,
        label=held.label,
        grants=held.grants,
        scopes=frozenset({"tenants:project:read"}),
    )

    assert slugs(projects_visible_to(narrow)) == ["llm", "virus", "vision"]
    assert slugs(organizations_visible_to(narrow)) == []
    assert not audit_entries_visible_to(narrow).exists()


def test_unseen_and_nonexistent_are_the_same_refusal(cast: Cast) -> None:
    alice = actor_of_user(cast.alice)
    messages = set()
    for pk in (cast.umbrella.pk, NOBODY):
        with pytest.raises(NotFoundError) as refusal:
            access_organization(alice, pk, "tenants:organization:read")
        messages.add((refusal.value.message, refusal.value.advice, str(refusal.value.facts)))

    assert len(messages) == 1


def test_seen_but_not_allowed_names_the_capability(cast: Cast) -> None:
    with pytest.raises(ForbiddenError) as refusal:
        access_project(actor_of_user(cast.carol), cast.llm.pk, "tenants:project:write")

    assert refusal.value.facts == {"capability": "tenants:project:write"}


def test_a_token_that_is_too_narrow_is_to_blame_and_not_the_role(cast: Cast) -> None:
    alice = replace(actor_of_user(cast.alice), scopes=frozenset({"tenants:project:read"}))
    where = {"organization_id": cast.acme.pk}

    with pytest.raises(ForbiddenError, match="token") as narrow:
        require_capability(alice, "tenants:project:write", **where)
    with pytest.raises(ForbiddenError, match="role") as lacking:
        require_capability(alice, "quotas:suspension:write", **where)

    assert narrow.value.advice == "Use one whose scopes include tenants:project:write."
    assert lacking.value.advice == "This may be done by a platform admin or a finance admin."


def test_a_capability_without_the_right_to_read_still_reaches_its_object(cast: Cast) -> None:
    lead = Actor(
        kind=ActorKind.PERSON,
        id="9",
        label="x",
        grants=(Grant(Role.PROJECT_LEAD, project_id=cast.llm.pk),),
        scopes=frozenset({"quotas:request:submit"}),
    )

    project = access_project(lead, cast.llm.pk, "quotas:request:submit")

    assert project == cast.llm
    with pytest.raises(NotFoundError):
        access_project(lead, cast.llm.pk, "tenants:project:read")


def test_an_accessed_project_comes_with_its_organization(
    cast: Cast, django_assert_num_queries: object
) -> None:
    alice = actor_of_user(cast.alice)

    with django_assert_num_queries(1):  # type: ignore[operator]
        project = access_project(alice, cast.vision.pk, "tenants:project:read")
        assert project.organization.slug == "acme"


def test_a_platform_object_asks_for_a_platform_role(cast: Cast) -> None:
    require_capability(actor_of_user(cast.frank), "tenants:cluster:write")
    require_capability(
        actor_of_user(cast.alice), "tenants:project:write", organization_id=cast.acme.pk
    )

    with pytest.raises(ForbiddenError):
        require_capability(actor_of_user(cast.alice), "tenants:cluster:write")
    with pytest.raises(ForbiddenError):
        require_capability(
            actor_of_user(cast.alice), "tenants:project:write", organization_id=cast.umbrella.pk
        )


def test_closing_hides_nothing(cast: Cast) -> None:
    Organization.objects.update(state="closed")

    assert slugs(organizations_visible_to(actor_of_user(cast.carol))) == ["acme"]


def test_a_row_is_fetched_in_one_statement_and_refused_as_far_as_it_is_seen(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    actors = {name: actor_of_user(getattr(cast, name)) for name in ("alice", "carol", "mallory")}
    ask = partial(
        access_project,
        row_id=cast.llm.pk,
        capability="tenants:membership:write",
    )

    with django_assert_num_queries(1):
        found = ask(actor=actors["alice"])
    with pytest.raises(ForbiddenError) as seen:
        ask(actor=actors["carol"])
    with pytest.raises(NotFoundError) as unseen:
        ask(actor=actors["mallory"])

    assert found == cast.llm
    assert seen.value.facts["capability"] == "tenants:membership:write"
    assert (str(unseen.value), unseen.value.field) == ("There is no such project.", "project")


def test_what_is_only_to_be_seen_takes_one_statement_either_way(
    cast: Cast, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    seen = projects_visible_to(actor_of_user(cast.carol))

    with django_assert_num_queries(1):
        assert access_seen(seen, cast.llm.pk) == cast.llm
    with django_assert_num_queries(1), pytest.raises(NotFoundError, match="no such project"):
        access_seen(seen, cast.vision.pk)

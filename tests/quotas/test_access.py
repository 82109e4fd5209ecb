"""Who sees what of quotas: one table of callers, own, sibling and foreign."""

import pytest

from quotas.access import (
    DECIDE_REQUEST,
    READ_LIMIT,
    READ_REQUEST,
    SUBMIT_REQUEST,
    WRITE_LIMIT,
    access_limit,
    access_person,
    access_request,
    access_target,
    organizations_with_limits,
)
from quotas.models import QuotaLimit, QuotaRequest
from tenants.domain.errors import DomainError, NotFoundError
from tenants.domain.identifiers import new_id
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit

PEOPLE = ["alice", "bob", "carol", "dora", "frank", "ann", "mallory"]
ALLOWED: dict[tuple[str, str], set[str]] = {
    (READ_LIMIT, "organization"): {"alice", "dora", "frank", "ann"},
    (READ_LIMIT, "own"): {"alice", "bob", "carol", "dora", "frank", "ann"},
    (READ_LIMIT, "sibling"): {"alice", "dora", "frank", "ann"},
    (READ_LIMIT, "foreign"): {"dora", "frank", "ann", "mallory"},
    (WRITE_LIMIT, "organization"): {"frank"},
    (WRITE_LIMIT, "own"): {"alice", "frank"},
    (WRITE_LIMIT, "sibling"): {"alice", "frank"},
    (WRITE_LIMIT, "foreign"): {"frank", "mallory"},
    (READ_REQUEST, "own"): {"alice", "bob", "carol", "dora", "frank", "ann"},
    (READ_REQUEST, "sibling"): {"alice", "dora", "frank", "ann"},
    (READ_REQUEST, "foreign"): {"dora", "frank", "ann", "mallory"},
    (SUBMIT_REQUEST, "own"): {"alice", "bob"},
    (SUBMIT_REQUEST, "sibling"): {"alice"},
    (SUBMIT_REQUEST, "foreign"): {"mallory"},
    (DECIDE_REQUEST, "own"): {"alice", "frank"},
    (DECIDE_REQUEST, "sibling"): {"alice", "frank"},
    (DECIDE_REQUEST, "foreign"): {"frank", "mallory"},
}


def limit_at(cast: Cast, where: str) -> QuotaLimit:
    if where == "organization":
        return make_limit(cast.acme)
    project = {"own": cast.llm, "sibling": cast.vision, "foreign": cast.virus}[where]
    return make_limit(project.organization, project)


def request_at(cast: Cast, where: str) -> QuotaRequest:
    project = {"own": cast.llm, "sibling": cast.vision, "foreign": cast.virus}[where]
    return QuotaRequest.objects.create(
        organization=project.organization,
        project=project,
        size="large",
        requested_units=1,
        justification="x",
        requested_by=cast.carol,
        created_at=AT,
    )


def outcome(call: object) -> str:
    try:
        call()  # type: ignore[operator]
    except DomainError as error:
        return error.code
    return "allowed"


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("where", ["organization", "own", "sibling", "foreign"])
@pytest.mark.parametrize("capability", [READ_LIMIT, WRITE_LIMIT])
def test_a_limit_is_reached_by_those_whose_role_covers_it(
    cast: Cast, capability: str, where: str, name: str
) -> None:
    limit, actor = limit_at(cast, where), actor_of(getattr(cast, name))

    found = outcome(lambda: access_limit(actor, limit.pk, capability))

    assert found == expected(capability, where, name, read=READ_LIMIT)


@pytest.mark.parametrize("name", PEOPLE)
@pytest.mark.parametrize("where", ["own", "sibling", "foreign"])
@pytest.mark.parametrize("capability", [READ_REQUEST, SUBMIT_REQUEST, DECIDE_REQUEST])
def test_a_request_is_reached_by_those_whose_role_covers_it(
    cast: Cast, capability: str, where: str, name: str
) -> None:
    request, actor = request_at(cast, where), actor_of(getattr(cast, name))

    found = outcome(lambda: access_request(actor, request.pk, capability))

    assert found == expected(capability, where, name, read=READ_REQUEST)


def expected(capability: str, where: str, name: str, *, read: str) -> str:
    if name in ALLOWED[capability, where]:
        return "allowed"
    return "forbidden" if name in ALLOWED[read, where] else "not_found"


def test_what_is_not_there_is_answered_as_what_may_not_be_seen(cast: Cast) -> None:
    foreign, bob = limit_at(cast, "foreign"), actor_of(cast.bob)

    with pytest.raises(NotFoundError) as hidden:
        access_limit(bob, foreign.pk, READ_LIMIT)
    with pytest.raises(NotFoundError) as missing:
        access_limit(bob, new_id(), READ_LIMIT)
    with pytest.raises(NotFoundError):
        access_target(bob, 1)

    assert (hidden.value.message, hidden.value.facts) == (
        missing.value.message,
        missing.value.facts,
    )


@pytest.mark.parametrize(
    ("name", "slugs"),
    [
        ("alice", ["acme"]),
        ("carol", ["acme"]),
        ("mallory", ["umbrella"]),
        ("ann", ["acme", "umbrella"]),
    ],
)
def test_use_is_reported_of_organizations_one_has_to_do_with(
    cast: Cast, name: str, slugs: list[str]
) -> None:
    found = organizations_with_limits(actor_of(getattr(cast, name))).order_by("slug")

    assert [organization.slug for organization in found] == slugs


def test_a_person_is_found_by_a_role_in_the_organization_only(cast: Cast) -> None:
    assert access_person(cast.acme, "alice") == cast.alice
    assert access_person(cast.acme, "carol") == cast.carol
    for stranger in ("mallory", "frank", "nobody"):
        with pytest.raises(NotFoundError) as refusal:
            access_person(cast.acme, stranger)
        assert refusal.value.field == "user"

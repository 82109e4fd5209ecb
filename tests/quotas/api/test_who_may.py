"""Who is refused is reported who may: an administrator cannot give what only the platform has."""

import pytest

from tests.quotas.api.conftest import Caller
from tests.support.cast import Cast
from tests.support.quotas.builders import make_grant, make_limit
from tests.support.quotas.preempting import protect

PLATFORM = "This may be done by a platform admin."


def test_an_organizations_own_limit_is_the_platforms(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, units=8)

    answer = caller("alice").patch(
        f"/api/v1/quota-limits/{limit.pk}/",
        {"limit_units": 9},
        format="json",
        headers={"If-Match": '"1"'},
    )

    assert (answer.status_code, answer.json()["remedy"]) == (403, PLATFORM)
    limit.refresh_from_db()
    assert limit.limit_units == 8


def test_a_grant_on_it_as_well(cast: Cast, caller: Caller) -> None:
    grant = make_grant(make_limit(cast.acme, units=8), 2)

    answer = caller("alice").post(
        f"/api/v1/quota-grants/{grant.pk}/end/", {}, format="json", headers={"If-Match": '"1"'}
    )

    assert (answer.status_code, answer.json()["remedy"]) == (403, PLATFORM)


def test_a_projects_limit_is_also_the_administrators(cast: Cast, caller: Caller) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    answer = caller("bob").patch(
        f"/api/v1/quota-limits/{limit.pk}/",
        {"limit_units": 9},
        format="json",
        headers={"If-Match": '"1"'},
    )

    assert answer.status_code == 403
    assert answer.json()["remedy"] == (
        "This may be done by a platform admin or an administrator of the organization."
    )


def test_a_window_is_closed_by_the_platform(cast: Cast, caller: Caller) -> None:
    window = protect(cast.acme)

    answer = caller("alice").post(
        f"/api/v1/protected-windows/{window.pk}/close/",
        {},
        format="json",
        headers={"If-Match": '"1"'},
    )

    assert (answer.status_code, answer.json()["remedy"]) == (403, PLATFORM)
    window.refresh_from_db()
    assert window.version == 1


def test_an_organization_is_suspended_by_the_platform(cast: Cast, caller: Caller) -> None:
    answer = caller("alice").post(
        "/api/v1/suspensions/",
        {"organization": str(cast.acme.pk), "reason": "Unpaid."},
        format="json",
        headers={"Idempotency-Key": "k"},
    )

    assert (answer.status_code, answer.json()["remedy"]) == (
        403,
        "This may be done by a platform admin or a finance admin.",
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("quota-limits", {"scope": "project", "size": "large", "limit_units": 8}),
        ("quota-requests", {"size": "large", "requested_units": 8, "justification": "Training."}),
        ("suspensions", {"reason": "Unpaid."}),
        ("isolation-policies", {"modes": ["whole"]}),
    ],
)
def test_another_tenants_project_is_the_field_to_blame(
    cast: Cast, caller: Caller, path: str, body: dict[str, object]
) -> None:
    named = {} if path == "quota-requests" else {"organization": str(cast.acme.pk)}

    answer = caller("alice").post(
        f"/api/v1/{path}/",
        {**named, "project": str(cast.virus.pk), **body},
        format="json",
        headers={"Idempotency-Key": "k"},
    )

    assert answer.status_code == 404
    assert (answer.json()["code"], answer.json()["field"]) == ("not_found", "project")


def test_another_tenants_organization_as_well_and_an_address_blames_no_field(
    cast: Cast, caller: Caller
) -> None:
    body = {"organization": str(cast.umbrella.pk), "reason": "Unpaid."}
    named = caller("alice").post(
        "/api/v1/suspensions/", body, format="json", headers={"Idempotency-Key": "k"}
    )
    addressed = caller("alice").get(f"/api/v1/projects/{cast.virus.pk}/")

    assert (named.status_code, named.json()["field"]) == (404, "organization")
    assert addressed.status_code == 404
    assert "field" not in addressed.json()

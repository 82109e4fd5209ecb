"""Tests of API tokens at the endpoint."""

from datetime import timedelta

import pytest
from django.test import override_settings
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.domain.actors import system_actor
from tenants.models import ApiToken, AuditEntry
from tenants.services.identity.tokens import revoke_token
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client, problem

ME = "/api/v1/me/"


def test_a_token_shows_who_calls_and_what_it_may(cast: Cast) -> None:
    answer = api_client(cast.carol).get(ME).json()

    assert (answer["kind"], answer["name"], answer["scopes"]) == ("person", "carol", None)
    (grant,) = answer["grants"]
    assert (grant["role"], grant["organization"], grant["project"]) == (
        "member",
        None,
        str(cast.llm.pk),
    )
    assert "metering:usage:read" in grant["capabilities"]


def test_a_narrower_token_shows_less_and_may_less(cast: Cast) -> None:
    client = api_client(cast.alice, scopes=("tenants:project:read",))

    me = client.get(ME).json()
    made = client.post(
        "/api/v1/projects/", {"organization": str(cast.acme.pk), "slug": "x", "name": "X"}
    )

    assert me["scopes"] == ["tenants:project:read"]
    assert [grant["capabilities"] for grant in me["grants"]] == [["tenants:project:read"]]
    assert client.get("/api/v1/projects/").json()["results"][0]["slug"] == "llm"
    assert problem(made) == (404, "not_found")
    assert client.get("/api/v1/api-tokens/").json()["results"] == []


def test_a_revoked_token_is_refused_at_once(cast: Cast) -> None:
    client = api_client(cast.carol)
    assert client.get(ME).status_code == 200

    revoke_token(token=ApiToken.objects.get(), actor=system_actor("x"), at=timezone.now())

    assert problem(client.get(ME)) == (401, "unauthenticated")


def test_an_expired_token_is_refused(cast: Cast) -> None:
    client = api_client(cast.carol)
    now = timezone.now()
    ApiToken.objects.update(created_at=now - timedelta(days=2), expires_at=now)

    assert problem(client.get(ME)) == (401, "unauthenticated")


def test_a_token_made_under_another_pepper_is_refused(cast: Cast) -> None:
    client = api_client(cast.carol)

    with override_settings(API_TOKEN_PEPPER="another-pepper-another-pepper-another"):
        response = client.get(ME)

    assert problem(response) == (401, "unauthenticated")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer a b",
        "Bearer nonsense",
        "Bearer gl_000000000000_" + "0" * 64,
        "bearer \u00e9\u00e9",
        "Basic YWxpY2U6Y29ycmVjdA==",
        "Token x",
    ],
)
def test_other_credentials_are_refused(header: str) -> None:
    response = APIClient().get(ME, HTTP_AUTHORIZATION=header)

    assert problem(response) == (401, "unauthenticated")


def test_a_deactivated_person_is_out_with_session_and_token(cast: Cast) -> None:
    by_token, by_session = api_client(cast.carol), APIClient()
    by_session.force_login(cast.carol)
    assert by_session.get(ME).status_code == 200
    cast.carol.is_active = False
    cast.carol.save()

    assert problem(by_token.get(ME)) == (401, "unauthenticated")
    assert problem(by_session.get(ME)) == (401, "unauthenticated")


def test_a_signed_in_person_needs_a_csrf_token_to_write(cast: Cast) -> None:
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(cast.alice)

    response = client.post(
        "/api/v1/projects/", {"organization": str(cast.acme.pk), "slug": "x", "name": "X"}
    )

    assert problem(response) == (403, "permission_denied")


def test_the_text_of_a_token_is_reported_once(cast: Cast) -> None:
    client = api_client(cast.alice)
    made = client.post(
        "/api/v1/api-tokens/",
        {"name": "laptop", "expires_at": (timezone.now() + timedelta(days=9)).isoformat()},
    )

    text = made.json()["token"]
    again = client.get(made["Location"])
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    assert APIClient().get(ME, HTTP_AUTHORIZATION=f"Bearer {text}").json()["name"] == "alice"
    assert again.status_code == 200
    assert "token" not in again.json()
    assert text.rsplit("_", 1)[1] not in client.get("/api/v1/api-tokens/").content.decode()
    assert (
        text.rsplit("_", 1)[1]
        not in api_client(cast.frank).get("/api/v1/audit-entries/").content.decode()
    )


def test_a_person_revokes_the_own_token(cast: Cast) -> None:
    client = api_client(cast.carol)
    pk = ApiToken.objects.get().pk

    response = client.post(f"/api/v1/api-tokens/{pk}/revoke/")

    assert response.status_code == 200
    assert response.json()["revoked_at"] is not None
    assert client.get(ME).status_code == 401


def test_nobody_revokes_the_token_of_another(cast: Cast) -> None:
    api_client(cast.alice)
    pk = ApiToken.objects.get().pk

    response = api_client(cast.mallory).post(f"/api/v1/api-tokens/{pk}/revoke/")

    assert problem(response) == (404, "not_found")
    assert ApiToken.objects.get(pk=pk).revoked_at is None


def test_a_request_takes_a_constant_number_of_statements(
    cast: Cast, django_assert_num_queries: object
) -> None:
    client = api_client(cast.alice)
    client.get(ME)

    with django_assert_num_queries(2):  # type: ignore[operator]
        client.get(ME)


def test_wrong_tokens_of_a_network_are_refused_by_number_and_right_ones_never(cast: Cast) -> None:
    guessing = APIClient()
    guessing.credentials(HTTP_AUTHORIZATION=f"Bearer gl_{'0' * 12}_{'0' * 64}")

    answers = [guessing.get(ME) for _ in range(61)]

    assert problem(answers[0]) == (401, "unauthenticated")
    assert problem(answers[-1]) == (429, "too_many_attempts")
    assert 0 < int(answers[-1]["Retry-After"]) <= 600
    assert api_client(cast.carol).get(ME).status_code == 200
    assert AuditEntry.objects.filter(action="tenants:token_guess:refuse").count() == 1

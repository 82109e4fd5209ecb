"""Tests of Idempotency-Key: a POST sent twice takes effect once and is answered the same."""

import threading

import pytest
from django.db import connections
from rest_framework.test import APIClient

from tenants.domain.identity.roles import Role
from tenants.models import AuditEntry, IdempotencyRecord, Membership, Project
from tests.support.builders import grant
from tests.support.cast import Cast, make_cast
from tests.support.tenants.clients import api_client, problem

PATH = "/api/v1/projects/"
TIMEOUT_SECONDS = 30


def body_of(cast: Cast, slug: str = "new") -> dict[str, str]:
    return {"organization": str(cast.acme.pk), "slug": slug, "name": "New"}


def test_the_same_request_is_answered_the_same_without_a_second_effect(cast: Cast) -> None:
    client = api_client(cast.alice)

    first = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
    written = AuditEntry.objects.count()
    reordered = dict(reversed(body_of(cast).items()))
    second = client.post(PATH, reordered, HTTP_IDEMPOTENCY_KEY="k1")

    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json() == first.json()
    assert (second["ETag"], second["Location"]) == (first["ETag"], first["Location"])
    assert ("Idempotent-Replayed" in first, second["Idempotent-Replayed"]) == (False, "true")
    assert Project.objects.filter(slug="new").count() == 1
    assert AuditEntry.objects.count() == written


@pytest.mark.parametrize("change", ["body", "path"])
def test_another_request_under_the_key_is_refused(cast: Cast, change: str) -> None:
    client = api_client(cast.alice)
    client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")

    if change == "body":
        response = client.post(PATH, body_of(cast, "other"), HTTP_IDEMPOTENCY_KEY="k1")
    else:
        response = client.post(
            "/api/v1/service-accounts/", body_of(cast), HTTP_IDEMPOTENCY_KEY="k1"
        )

    assert problem(response) == (422, "idempotency_key_reused")
    assert IdempotencyRecord.objects.count() == 1
    assert not Project.objects.filter(slug="other").exists()


def test_a_refused_request_is_not_remembered_and_may_be_sent_again(cast: Cast) -> None:
    client = api_client(cast.alice)
    taken = Project.objects.create(
        organization=cast.acme, slug="new", name="Old", created_at=cast.acme.created_at
    )

    refused = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
    taken.slug = "other"
    taken.save(update_fields=["slug"])
    accepted = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")

    assert problem(refused) == (409, "slug_taken")
    assert accepted.status_code == 201
    assert "Idempotent-Replayed" not in accepted


def test_a_key_belongs_to_its_caller(cast: Cast) -> None:
    first = api_client(cast.alice).post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
    second = api_client(cast.frank).post(PATH, body_of(cast, "b"), HTTP_IDEMPOTENCY_KEY="k1")

    assert (first.status_code, second.status_code) == (201, 201)
    assert IdempotencyRecord.objects.count() == 2


@pytest.mark.parametrize("scopes", [("tenants:project:read",), ("tenants:project:write",), ()])
def test_a_token_of_other_scopes_does_not_get_the_stored_answer(
    cast: Cast, scopes: tuple[str, ...]
) -> None:
    wide = ("tenants:organization:read", "tenants:project:read", "tenants:project:write")
    api_client(cast.alice, scopes=wide).post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
    other = api_client(cast.alice, scopes=scopes)
    written = AuditEntry.objects.count()

    replays = [other.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1") for _ in range(2)]

    assert [problem(replay) for replay in replays] == [(422, "idempotency_key_reused")] * 2
    assert replays[0].json()["field"] == "Idempotency-Key"
    assert Project.objects.filter(slug="new").count() == 1
    assert AuditEntry.objects.count() == written + 1
    assert AuditEntry.objects.latest("id").action == "tenants:idempotency_key:refuse"


@pytest.mark.parametrize("keeps_another_role", [True, False])
def test_a_person_whose_role_was_taken_away_does_not_get_the_stored_answer(
    cast: Cast, *, keeps_another_role: bool
) -> None:
    client = api_client(cast.alice)
    client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
    Membership.objects.filter(user=cast.alice).delete()
    if keeps_another_role:
        grant(cast.alice, Role.MEMBER, project=cast.llm)

    replay = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")

    assert problem(replay) == (403, "idempotency_role_lost")
    assert AuditEntry.objects.latest("id").facts == {"code": "idempotency_role_lost"}


def test_a_further_role_does_not_keep_the_stored_answer_back(cast: Cast) -> None:
    client = api_client(cast.alice)
    first = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
    grant(cast.alice, Role.MEMBER, project=cast.virus)

    replay = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")

    assert (replay.status_code, replay.json()) == (201, first.json())


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "ü"])
def test_a_key_is_1_to_255_visible_characters(cast: Cast, key: str) -> None:
    response = api_client(cast.alice).post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY=key)

    assert problem(response) == (400, "idempotency_key_required")
    assert not Project.objects.filter(slug="new").exists()


@pytest.mark.usefixtures("committed_db")
def test_two_at_once_take_effect_once() -> None:
    cast = make_cast()
    clients = [api_client(cast.alice) for _ in range(2)]
    together = threading.Barrier(2, timeout=TIMEOUT_SECONDS)
    answers: list[tuple[int, str]] = []

    def send(client: APIClient) -> None:
        try:
            together.wait()
            response = client.post(PATH, body_of(cast), HTTP_IDEMPOTENCY_KEY="k1")
            answers.append((response.status_code, response.json().get("code", "")))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)

    assert (201, "") in answers
    assert set(answers) <= {(201, ""), (409, "idempotency_key_in_use")}
    assert Project.objects.filter(slug="new").count() == 1
    assert IdempotencyRecord.objects.count() == 1

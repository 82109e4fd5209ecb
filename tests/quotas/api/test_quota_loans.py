"""/api/v1/quota-loans/ and /api/v1/loan-policies/ through HTTP."""

from itertools import count
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from quotas.models import AdmissionRefusal, LoanPolicy
from quotas.tasks import share_fairly, tick_fair_use
from tenants.domain.identity.roles import Role
from tests.quotas.api.conftest import Caller
from tests.support.builders import grant
from tests.support.cast import Cast
from tests.support.quotas.lending_world import LendingWorld, loan, loan_grants, make_lending_world
from tests.support.shared_rows import shared_rows

LOANS = "/api/v1/quota-loans/"
POLICIES = "/api/v1/loan-policies/"
_KEYS = count()


@shared_rows
def world(cast: Cast) -> LendingWorld:
    """The world, with one loan proposed now."""
    made = make_lending_world(cast)
    AdmissionRefusal.objects.update(last_at=timezone.now())
    assert share_fairly(timezone.now()) == 1
    return made


def post(client: APIClient, url: str, body: dict[str, Any] | None = None) -> Any:  # noqa: ANN401 - An answer.
    return client.post(
        url, body or {}, format="json", headers={"Idempotency-Key": f"loan-{next(_KEYS)}"}
    )


def test_both_projects_see_a_loan_and_strangers_do_not(world: LendingWorld, caller: Caller) -> None:
    assert world.llm.limit_units == 4
    assert [row["state"] for row in caller("carol").get(LOANS).json()["results"]] == ["proposed"]
    assert caller("mallory").get(LOANS).json()["results"] == []
    assert caller("mallory").get(f"{LOANS}{loan().pk}/").status_code == 404
    body = caller("alice").get(f"{LOANS}{loan().pk}/").json()
    assert (body["units"], body["lender"], body["borrower"]) == (
        3,
        str(world.cast.vision.pk),
        str(world.cast.llm.pk),
    )


def test_what_the_other_project_leaves_idle_or_misses_is_not_reported(
    world: LendingWorld, caller: Caller
) -> None:
    grant(world.cast.mallory, Role.MEMBER, project=world.cast.vision)

    reported = {}
    for name in ("carol", "bob", "mallory", "alice", "ann"):
        (row,) = caller(name).get(LOANS).json()["results"]
        one = caller(name).get(f"{LOANS}{loan().pk}/").json()
        assert row == one
        reported[name] = (one["lender_idle_units"], one["borrower_missing_units"], one["units"])

    assert reported == {
        "carol": (None, 3, 3),
        "bob": (None, 3, 3),
        "mallory": (9, None, 3),
        "alice": (9, 3, 3),
        "ann": (9, 3, 3),
    }


def test_an_administrator_approves_and_recalls(world: LendingWorld, caller: Caller) -> None:
    url = f"{LOANS}{loan().pk}/"

    approved = post(caller("alice"), f"{url}approve/", {"note": "For the deadline."})
    assert (approved.status_code, approved.json()["state"]) == (200, "active")
    assert (approved.json()["decided_by"], loan_grants()) == (
        "alice",
        [("vision", -3), ("llm", 3)],
    )
    recalled = post(caller("alice"), f"{url}recall/")

    assert recalled.json()["state"] == "recalled"
    assert world.in_force(timezone.now()) == {"acme": 16, "llm": 4, "vision": 12}


def test_a_lead_may_not_decide_and_nothing_changes(world: LendingWorld, caller: Caller) -> None:
    url = f"{LOANS}{loan().pk}/"

    answers = [post(caller("bob"), f"{url}{verb}/") for verb in ("approve", "decline", "recall")]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert (loan().state, world.in_force()["llm"]) == ("proposed", 4)


@pytest.mark.usefixtures("world")
def test_a_decided_loan_is_not_decided_otherwise(caller: Caller) -> None:
    url = f"{LOANS}{loan().pk}/"
    post(caller("alice"), f"{url}decline/")

    answer = post(caller("alice"), f"{url}approve/")

    assert (answer.status_code, answer.json()["code"]) == (409, "quota_loan_decided")
    assert loan_grants() == []


@pytest.mark.usefixtures("world")
def test_a_tick_changes_nothing_twice() -> None:
    tick_fair_use()

    assert loan().state == "proposed"
    assert share_fairly(timezone.now()) == 0


def test_a_policy_is_set_and_read(cast: Cast, caller: Caller) -> None:
    terms = {"mode": "automatic", "max_units": 4, "max_days": 3, "keep_free_percent": 10}
    body = {"organization": str(cast.acme.pk), **terms}

    made = post(caller("alice"), POLICIES, body)
    refused = post(caller("bob"), POLICIES, body)
    hidden = post(caller("mallory"), POLICIES, body)
    wrong = post(caller("alice"), POLICIES, {**body, "max_days": 93})

    assert (made.status_code, made.json()["max_days"]) == (201, 3)
    assert (refused.status_code, hidden.status_code) == (403, 404)
    assert wrong.status_code in {400, 422}
    assert LoanPolicy.objects.get().mode == "automatic"
    assert len(caller("carol").get(POLICIES).json()["results"]) == 1
    assert caller("mallory").get(POLICIES).json()["results"] == []

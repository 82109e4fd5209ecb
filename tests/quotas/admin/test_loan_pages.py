"""Admin pages of loans and of what was agreed about them."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import LoanPolicy
from tests.support.cast import Cast
from tests.support.quotas.builders import audit_actions
from tests.support.quotas.lending_world import LendingWorld, loan, loan_grants, make_lending_world
from tests.support.shared_rows import shared_rows


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    """Leave the menu, which spans the apps, to unfold."""
    with override_settings(UNFOLD={}):
        yield


@shared_rows
def world(cast: Cast) -> LendingWorld:
    User.objects.update(is_staff=True)
    made = make_lending_world(cast)
    made.refresh()
    return made


def enter(user: User) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


def press(client: Client, button: str) -> str:
    answer = client.post(
        "/admin/quotas/quotaloan/",
        {"action": button, "_selected_action": str(loan().pk)},
        follow=True,
    )
    return answer.content.decode()


@pytest.mark.parametrize(
    ("button", "state", "grants"),
    [
        ("approve_loans", "approved", [("vision", -3), ("llm", 3)]),
        ("decline_loans", "declined", []),
    ],
)
def test_a_loan_is_decided_by_a_button(
    world: LendingWorld, button: str, state: str, grants: list[tuple[str, int]]
) -> None:
    page = press(enter(world.cast.frank), button)

    assert f"is {state}." in page
    assert loan_grants() == grants
    assert loan().decided_by == world.cast.frank


def test_a_loan_in_force_is_recalled_and_a_proposed_one_is_not(world: LendingWorld) -> None:
    client = enter(world.cast.frank)

    refused = press(client, "recall_loans")
    press(client, "approve_loans")
    page = press(client, "recall_loans")

    assert "it can no longer be recalled" in refused
    assert "is recalled." in page
    assert loan().state == "recalled"


def test_an_auditor_looks_and_decides_nothing(world: LendingWorld) -> None:
    press(enter(world.cast.ann), "approve_loans")

    assert (loan().state, loan_grants()) == ("proposed", [])


def test_a_policy_is_added_and_changed_by_its_form(world: LendingWorld) -> None:
    client = enter(world.cast.frank)
    form = {
        "organization": str(world.cast.acme.pk),
        "mode": "propose",
        "max_units": "8",
        "max_days": "7",
        "keep_free_percent": "20",
    }

    client.post("/admin/quotas/loanpolicy/add/", form)
    client.post(f"/admin/quotas/loanpolicy/{world.cast.acme.pk}/change/", {**form, "max_days": "3"})
    wrong = client.post(
        f"/admin/quotas/loanpolicy/{world.cast.acme.pk}/change/", {**form, "max_days": "93"}
    )

    assert LoanPolicy.objects.get().max_days == 3
    assert "from 1 to 92" in wrong.content.decode()
    assert audit_actions()[1:] == ["quotas:loan_policy:set"] * 2

"""The page of a request: what decides, and buttons that go through the services."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import QuotaLimit, QuotaRequest, RequestPolicy
from quotas.services.requests.deciding import approve_request
from tenants.domain.identity.roles import Role
from tests.support.builders import AT, grant
from tests.support.cast import Cast
from tests.support.quotas.asking import FixedEstimator, ask, make_policy, steps_of
from tests.support.quotas.builders import actor_of, make_limit

PAGE = "/admin/quotas/quotarequest/"


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    with override_settings(UNFOLD={}):
        yield


@pytest.fixture(autouse=True)
def staff(cast: Cast) -> None:  # noqa: ARG001 - The cast comes first.
    User.objects.update(is_staff=True)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


def press(client: Client, request: QuotaRequest, verb: str, text: str = "") -> str:
    answer = client.post(f"{PAGE}{request.pk}/{verb}/", {"text": text}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_page_shows_everything_that_decides(cast: Cast) -> None:
    make_limit(cast.acme, units=6)
    make_limit(cast.acme, cast.llm, units=5)
    request = ask(cast, estimator=FixedEstimator())

    page = enter(cast.frank).get(f"{PAGE}{request.pk}/change/").content.decode()

    assert (
        "Once approved, LLM is allowed 8 large in all, from the approval on, without end; "
        "it is allowed 5 now."
    ) in page
    assert '<td class="number">800.00 EUR</td>' in page
    assert '<td class="number">400.00 EUR</td>' in page
    assert "8 free after approval" in page
    assert "limit is 6" in page
    assert QuotaLimit.objects.get(project=cast.llm).limit_units == 5


def test_buttons_comment_and_approve_with_a_note(cast: Cast) -> None:
    request = ask(cast)
    client = enter(cast.frank)

    press(client, request, "comment", "How long?")
    page = press(client, request, "approve", "Until March.")

    request.refresh_from_db()
    assert (request.state, request.decision_note) == ("approved", "Until March.")
    assert steps_of(request) == [("organization_admin", "approved")]
    assert "How long?" in page
    assert QuotaLimit.objects.get().limit_units == 8


def test_a_refusal_is_reported_and_changes_nothing(cast: Cast) -> None:
    make_limit(cast.acme, units=6)
    request = ask(cast)

    page = press(enter(cast.frank), request, "approve")
    stranger = press(enter(cast.ann), request, "reject", "No.")

    assert "limit is 6" in page
    assert "Your role does not allow this here." in stranger
    assert steps_of(request) == [("organization_admin", "open")]


def test_the_page_shows_money_in_words_and_shows_no_column_as_it_is_stored(cast: Cast) -> None:
    request = ask(cast, estimator=FixedEstimator("1000.00"), requested_units=8)

    page = enter(cast.dora).get(f"{PAGE}{request.pk}/change/").content.decode()

    assert "8,000.00 EUR" in page
    assert "at_full_use" not in page
    assert "{&quot;" not in page
    assert 'class="readonly"' not in page
    assert "<dt>Renews</dt>" not in page
    assert "The organization has no price book today." in page


@pytest.mark.parametrize(
    ("units", "before"),
    [
        (0, "no number is set here, the level above decides"),
        (None, "unlimited"),
    ],
    ids=["unset", "unlimited"],
)
def test_what_has_no_number_is_never_reported_as_nothing(
    cast: Cast, units: int | None, before: str
) -> None:
    make_limit(cast.acme, units=20)
    if units is None:
        make_limit(cast.acme, cast.llm, units=1)
        QuotaLimit.objects.filter(project=cast.llm).update(limit_units=None)
    request = ask(cast)

    page = enter(cast.dora).get(f"{PAGE}{request.pk}/change/").content.decode()

    row = page[page.index(f"In force without it: {before}") :].split("</tr>")[0]
    assert '<td class="number"></td>' in row
    assert row.count('<td class="number">not comparable</td>') == 2
    assert "0.00 EUR" not in row
    assert "More than in force" not in page


def test_what_is_in_force_is_compared_at_todays_prices(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5)
    request = ask(cast)

    page = enter(cast.dora).get(f"{PAGE}{request.pk}/change/").content.decode()

    row = page[page.index("In force without it, at today") :].split("</tr>")[0]
    assert '<td class="number">5</td>' in row
    assert '<td class="number">+3</td>' in page


@pytest.mark.parametrize("name", ["mallory", "carol", "alice"])
def test_staff_without_a_right_are_refused_the_page_and_reported_nothing(
    cast: Cast, name: str
) -> None:
    request = ask(cast)

    answer = enter(getattr(cast, name)).get(f"{PAGE}{request.pk}/change/")

    assert answer.status_code == 403
    assert "A bigger model." not in answer.content.decode()


def test_a_request_that_is_not_there_leads_back_to_the_front(cast: Cast) -> None:
    page = f"{PAGE}00000000-0000-0000-0000-000000000000/change/"

    assert enter(cast.frank).get(page).status_code == 302
    assert enter(cast.mallory).get(page).status_code == 403


def test_the_page_shows_burst_times_and_what_was_done(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=5, burst_units=1)
    QuotaLimit.objects.filter(project=cast.llm).update(limit_units=None)
    request = ask(cast, burst_units=4, model_group="", estimator=FixedEstimator())
    client = enter(cast.frank)
    press(client, request, "comment", "How long?")

    page = press(client, request, "reject", "Not now.")

    assert (
        "LLM would have been allowed 8 large and 4 burst in all, from the approval on, without end."
    ) in page
    assert "and 4 burst" in page
    for call in ("asked", "commented", "rejected"):
        assert f"<td>{call}</td>" in page
    assert page.index("<td>rejected</td>") < page.index("<td>asked</td>")
    assert "as shown when it was requested" in page
    assert "In force without it" not in page
    assert "Approve" not in page


def test_an_approved_request_shows_what_was_then_and_what_is_now(cast: Cast) -> None:
    make_limit(cast.acme, cast.llm, units=2, burst_units=1)
    request = ask(cast, burst_units=3)
    approve_request(request_id=request.pk, actor=actor_of(cast.frank), at=AT)
    QuotaLimit.objects.filter(project=cast.llm).update(limit_units=6)

    page = enter(cast.dora).get(f"{PAGE}{request.pk}/change/").content.decode()

    assert (
        "LLM was allowed 8 large and 3 burst in all, from 2 November 2026, 09:00 UTC, without end "
        "(was 2 and 1 burst when it was approved; now 6 and 3 burst)."
    ) in page
    assert "(now" not in page


def test_an_approved_request_says_so_where_no_number_is_set_any_more(cast: Cast) -> None:
    request = ask(cast)
    approve_request(request_id=request.pk, actor=actor_of(cast.frank), at=AT)
    QuotaLimit.objects.all().delete()

    page = enter(cast.dora).get(f"{PAGE}{request.pk}/change/").content.decode()

    assert "(was not set when it was approved; now not set)." in page


def test_units_for_a_time_are_reported_beside_what_is_in_force_now(cast: Cast) -> None:
    now = datetime.now(UTC)
    make_limit(cast.acme, cast.llm, units=2)
    request = ask(cast, end_at=now + timedelta(days=1), at=now)

    asked = enter(cast.dora).get(f"{PAGE}{request.pk}/change/").content.decode()
    approved = press(enter(cast.frank), request, "approve")

    assert "UTC; it is allowed 2 now." in asked
    assert "UTC (was 2 when it was approved; now 8)." in approved


def test_buttons_are_offered_to_those_whose_turn_it_is(cast: Cast) -> None:
    make_policy(cast.acme, steps=[{"level": "finance"}])
    request = ask(cast)

    pages = {
        name: enter(getattr(cast, name)).get(f"{PAGE}{request.pk}/change/").content.decode()
        for name in ("dora", "frank", "ann")
    }

    assert {name for name, page in pages.items() if "/approve/" in page} == {"dora"}
    assert {name for name, page in pages.items() if "/comment/" in page} == {"dora", "frank"}
    assert "You do not decide this" in pages["frank"]


def test_nobody_is_offered_to_decide_their_own_or_twice(cast: Cast) -> None:
    make_policy(cast.acme, steps=[{"level": "organization_admin"}, {"level": "platform"}])
    request = ask(cast)
    grant(cast.bob, Role.PLATFORM_ADMIN)
    page = f"{PAGE}{request.pk}/change/"

    own = enter(cast.bob).get(page).content.decode()
    press(enter(cast.frank), request, "approve")
    twice = enter(cast.frank).get(page).content.decode()

    assert "/approve/" not in own
    assert "/approve/" not in twice
    assert steps_of(request) == [("organization_admin", "approved"), ("platform", "open")]


def test_following_a_link_decides_nothing(cast: Cast) -> None:
    request = ask(cast)
    client = enter(cast.frank)

    assert client.get(f"{PAGE}{request.pk}/approve/").status_code == 405
    assert client.post(f"{PAGE}{request.pk}/burn/").status_code == 404
    assert enter(cast.alice).post(f"{PAGE}{request.pk}/approve/").status_code == 404
    assert steps_of(request) == [("organization_admin", "open")]


def test_the_platform_writes_policies_in_a_form(cast: Cast) -> None:
    form = {
        "organization": str(cast.acme.pk),
        "currency": "EUR",
        "steps": '[{"level": "finance", "cost_from": "10000"}]',
        "automatic_units": '{"small": 4}',
        "automatic_cost": "500",
        "escalate_after_hours": "24",
        "expire_after_days": "14",
        "remind_days": "3",
    }

    answer = enter(cast.frank).post("/admin/quotas/requestpolicy/add/", form)

    assert answer.status_code == 302
    policy = RequestPolicy.objects.get()
    assert (policy.organization, policy.automatic_units) == (cast.acme, {"small": 4})

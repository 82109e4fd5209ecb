"""Admin pages of preemption: a plan is looked at, then executed by a second click."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import PreemptionPlan, PreemptionPolicy, ProtectedWindow, QuotaLimit
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit
from tests.support.quotas.preempting import admit, make_plan, protect
from tests.support.quotas.preemption_steps import EVICTOR, finish, minutes, run_in, running, step

PLANS = "/admin/quotas/preemptionplan/"
WINDOWS = "/admin/quotas/protectedwindow/"
POLICIES = "/admin/quotas/preemptionpolicy/"


@pytest.fixture(autouse=True)
def site(cast: Cast) -> Iterator[None]:  # noqa: ARG001 - The people come first.
    """Let everybody in at the time of the tests, and leave the menu to unfold."""
    User.objects.update(is_staff=True)
    with override_settings(UNFOLD={}), time_machine.travel(AT, tick=False):
        yield


@pytest.fixture
def frank(cast: Cast) -> Client:
    return enter(cast.frank)


def enter(user: User) -> Client:
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


def over(cast: Cast) -> None:
    make_limit(cast.acme, units=0)
    hopper = make_cluster("hopper")
    pods = [admit(hopper, cast.llm, f"w-{n}", controller="Job/train") for n in range(2)]
    run_in(EVICTOR.cluster("hopper"), *pods)


def press(client: Client, page: str, button: str, pk: object) -> str:
    given = {"action": button, "_selected_action": str(pk)}
    answer = client.post(page, given, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_adding_a_plan_shows_who_would_go(cast: Cast, frank: Client) -> None:
    over(cast)

    page = frank.post(f"{PLANS}add/", {"organization": cast.acme.pk, "_continue": "1"}, follow=True)

    text = page.content.decode()
    assert PreemptionPlan.objects.get().planned_by == "frank"
    assert "2 large over the limit of organization acme" in text
    assert "hopper / llm / w-0" in text
    assert "One of 2 pods that go together" in text
    assert "Suspend its Job" in text
    assert EVICTOR.cluster("hopper").asked == []


def test_the_form_plans_and_saves_nothing(frank: Client) -> None:
    form = frank.get(f"{PLANS}add/").content.decode()

    assert "Make a plan and show its victims" in form
    assert 'name="_continue"' in form
    assert 'name="_save"' not in form
    assert 'name="_addanother"' not in form


def test_a_plan_is_reported_in_words(cast: Cast, frank: Client) -> None:
    over(cast)
    protect(cast.acme, begin_at=AT, end_at=AT + timedelta(hours=1))
    frank.post(f"{PLANS}add/", {"organization": cast.acme.pk})
    plan = PreemptionPlan.objects.get()

    page = frank.get(f"{PLANS}{plan.pk}/change/").content.decode()

    assert [one["units"] for one in plan.remainders] == [2]
    assert "2 large over the limit of organization acme" in page
    assert "Stays over:" in page
    assert "&quot;kind&quot;" not in page
    for column in ("Overage", "Remainders", "Fence", "Version", "Id"):
        assert f">{column}<" not in "".join(page.split())


@pytest.mark.parametrize(
    ("is_dry_run", "reported"),
    [(True, "Dry run: nothing was executed"), (False, "No: frank executed it")],
)
def test_a_plan_says_whether_anything_of_it_was_done(
    cast: Cast, frank: Client, *, is_dry_run: bool, reported: str
) -> None:
    by = "" if is_dry_run else "frank"
    plan = make_plan(cast.acme, state="done", is_dry_run=is_dry_run, executed_by=by)

    pages = [frank.get(f"{PLANS}{path}").content.decode() for path in ("", f"{plan.pk}/change/")]

    assert [reported in page for page in pages] == [True, True]
    assert ["is dry run" in page.lower() for page in pages] == [False, False]


@pytest.mark.parametrize(
    ("state", "is_offered"),
    [
        ("planned", True),
        ("running", False),
        ("done", False),
        ("stopped", False),
        ("expired", False),
    ],
)
def test_only_a_plan_that_is_open_offers_to_be_executed(
    cast: Cast, frank: Client, *, state: str, is_offered: bool
) -> None:
    runs = {"not_before": AT} if state == "running" else {}
    plan = make_plan(cast.acme, state=state, **runs)

    page = frank.get(f"{PLANS}{plan.pk}/change/").content.decode()

    assert (f"{PLANS}{plan.pk}/execute/" in page) is is_offered


def test_policies_are_many_of_a_policy(frank: Client) -> None:
    page = frank.get(POLICIES).content.decode()

    assert "preemption policies" in page.lower()
    assert "policys" not in page.lower()


def test_a_plan_that_is_not_needed_is_refused_in_the_form(cast: Cast, frank: Client) -> None:
    page = frank.post(f"{PLANS}add/", {"organization": cast.acme.pk})

    assert "holds no more than it may" in page.content.decode()
    assert not PreemptionPlan.objects.exists()


def test_executing_asks_once_more(cast: Cast, frank: Client) -> None:
    over(cast)
    frank.post(f"{PLANS}add/", {"organization": cast.acme.pk})
    plan = PreemptionPlan.objects.get()

    asked = frank.get(f"{PLANS}{plan.pk}/execute/").content.decode()
    before = PreemptionPlan.objects.get().state
    frank.post(f"{PLANS}{plan.pk}/execute/")

    assert "2 pods of Acme will be ended" in asked
    assert (before, PreemptionPlan.objects.get().state) == ("planned", "running")
    assert PreemptionPlan.objects.get().executed_by == "frank"


def test_a_plan_that_has_ended_is_not_executed(cast: Cast, frank: Client) -> None:
    plan = make_plan(cast.acme, state="stopped")

    asked = frank.get(f"{PLANS}{plan.pk}/execute/").content.decode()
    refused = frank.post(f"{PLANS}{plan.pk}/execute/").content.decode()

    assert "nothing can be executed" in asked
    assert "The plan has ended: stopped." in refused


def test_a_plan_that_is_not_there_is_not_found(frank: Client) -> None:
    assert frank.get(f"{PLANS}00000000-0000-4000-8000-000000000000/execute/").status_code == 404


@pytest.mark.parametrize("name", ["ann", "dora"])
def test_who_may_only_look_executes_nothing(cast: Cast, name: str) -> None:
    plan = make_plan(cast.acme, expires_at=AT + timedelta(hours=1))
    client = enter(getattr(cast, name))

    assert client.get(f"{PLANS}{plan.pk}/change/").status_code == 200
    assert client.post(f"{PLANS}{plan.pk}/execute/").status_code == 403
    assert client.get(f"{PLANS}add/").status_code == 403
    press(client, PLANS, "stop_plans", plan.pk)
    assert PreemptionPlan.objects.get().state == "planned"


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
@pytest.mark.parametrize("page", [PLANS, WINDOWS, POLICIES])
def test_a_role_of_one_organization_opens_no_page(cast: Cast, name: str, page: str) -> None:
    assert enter(getattr(cast, name)).get(page).status_code == 403


def test_plans_are_stopped_and_their_jobs_resumed_by_buttons(cast: Cast, frank: Client) -> None:
    over(cast)
    plan = running(cast.acme)
    step(plan, minutes(0))
    finish(EVICTOR.cluster("hopper"))

    stopped = press(frank, PLANS, "stop_plans", plan.pk)
    full = press(frank, PLANS, "resume_suspended_jobs", plan.pk)
    QuotaLimit.objects.update(limit_units=2)
    resumed = press(frank, PLANS, "resume_suspended_jobs", plan.pk)
    again = press(frank, PLANS, "resume_suspended_jobs", plan.pk)

    assert "is stopped" in stopped
    assert "Job llm/train stays suspended: Its units do not fit" in full
    assert "Job llm/train is resumed." in resumed
    assert "No Job of these plans is suspended." in again


def test_a_window_is_promised_shown_and_ended(cast: Cast, frank: Client) -> None:
    form = {
        "organization": cast.acme.pk,
        "project": cast.llm.pk,
        "valid_from_0": "2026-11-02",
        "valid_from_1": "08:00:00",
        "valid_until_0": "2026-11-03",
        "valid_until_1": "08:00:00",
        "reason": "Release.",
    }

    frank.post(f"{WINDOWS}add/", form)
    window = ProtectedWindow.objects.get()
    listed = frank.get(WINDOWS).content.decode()
    opened = frank.get(f"{WINDOWS}{window.pk}/change/")
    ended = press(frank, WINDOWS, "close_windows", window.pk)

    assert (window.project, window.created_by) == (cast.llm, "frank")
    assert "2026-11-03 08:00 UTC" in listed
    assert opened.status_code == 200
    assert "has ended" in ended
    assert ProtectedWindow.objects.get().valid.upper == AT


def test_a_window_that_never_was_is_shown_cancelled_and_when(cast: Cast, frank: Client) -> None:
    window = protect(cast.acme, begin_at=AT + timedelta(hours=1), end_at=AT + timedelta(hours=2))
    press(frank, WINDOWS, "close_windows", window.pk)

    listed = frank.get(WINDOWS).content.decode()
    opened = frank.get(f"{WINDOWS}{window.pk}/change/").content.decode()
    for page in (listed, opened):
        assert "cancelled" in page
        assert "2026-11-02 10:00 UTC" in page
        assert "2026-11-02 11:00 UTC" in page
        assert "never" not in page


@pytest.mark.parametrize(
    ("button", "mode"), [("execute", "execute"), ("leave", "off"), ("propose", "propose")]
)
def test_what_is_automatic_is_set_by_buttons(
    cast: Cast, frank: Client, button: str, mode: str
) -> None:
    PreemptionPolicy.objects.create(organization=cast.acme, over_since=AT)

    page = press(frank, POLICIES, button, cast.acme.pk)

    assert "is set" in page
    assert PreemptionPolicy.objects.get().mode == mode

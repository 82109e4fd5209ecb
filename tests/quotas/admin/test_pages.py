"""Admin pages of quotas: who sees which, and that buttons go through the services."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings

from quotas.models import EnforcementTarget, QuotaLimit, QuotaRequest
from quotas.services.enforcement.targets import refresh_targets
from tenants.domain.actors import system_actor
from tenants.domain.identity.roles import Role
from tests.support.builders import AT, bind, grant, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_limit, submit_request

TABLES = ("quotalimit", "quotarequest", "enforcementtarget")
BOARD = "/admin/quotas/quotalimit/board/"


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    """Leave the menu, which spans the apps, to unfold."""
    with override_settings(UNFOLD={}):
        yield


@pytest.fixture(autouse=True)
def staff(cast: Cast) -> None:
    User.objects.update(is_staff=True)
    for person in vars(cast).values():
        if isinstance(person, User):
            person.is_staff = True


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def press(client: Client, table: str, button: str, pk: object) -> str:
    """Choose one row and press a button; return the page that follows."""
    answer = client.post(
        f"/admin/quotas/{table}/", {"action": button, "_selected_action": str(pk)}, follow=True
    )
    assert answer.status_code == 200
    return answer.content.decode()


def submit(cast: Cast, user: User) -> QuotaRequest:
    return submit_request(
        project=cast.llm,
        size="large",
        requested_units=8,
        justification="A bigger model.",
        actor=actor_of(user),
        at=AT,
    )


def test_every_table_is_listed_searched_and_opened(cast: Cast) -> None:
    bind(make_cluster(), "llm", cast.llm)
    rows = [make_limit(cast.acme, cast.llm), submit(cast, cast.bob)]
    refresh_targets(at=AT, actor=system_actor("tests"))
    client = enter(cast.frank)

    for table, pk in zip(
        TABLES, [*(row.pk for row in rows), EnforcementTarget.objects.get().pk], strict=True
    ):
        assert client.get(f"/admin/quotas/{table}/?q=l").status_code == 200
        assert client.get(f"/admin/quotas/{table}/{pk}/change/").status_code == 200


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_a_role_of_one_organization_opens_no_page(cast: Cast, name: str) -> None:
    client = enter(getattr(cast, name))

    for table in TABLES:
        assert client.get(f"/admin/quotas/{table}/").status_code == 403
    assert client.get(BOARD).status_code == 403


def test_a_limit_is_set_changed_and_removed_through_the_services(cast: Cast) -> None:
    client = enter(cast.frank)
    form = {
        "scope": "project",
        "organization": str(cast.acme.pk),
        "project": str(cast.llm.pk),
        "user": "",
        "size": "large",
        "limit_units": "8",
        "burst_units": "0",
        "overcommit_percent": "100",
    }

    client.post("/admin/quotas/quotalimit/add/", form)
    limit = QuotaLimit.objects.get()
    client.post(f"/admin/quotas/quotalimit/{limit.pk}/change/", {**form, "limit_units": "4"})
    limit.refresh_from_db()
    page = press(client, "quotalimit", "remove_limits", limit.pk)

    assert (limit.limit_units, limit.generation) == (4, 2)
    assert "is removed." in page
    assert not QuotaLimit.objects.exists()
    assert audit_actions() == ["quotas:limit:set", "quotas:limit:set", "quotas:limit:remove"]


def test_a_limit_that_breaks_the_tree_is_refused_beside_its_field(cast: Cast) -> None:
    make_limit(cast.acme, units=6)
    limit = make_limit(cast.acme, cast.llm, units=4)

    answer = enter(cast.frank).post(
        f"/admin/quotas/quotalimit/{limit.pk}/change/",
        {"limit_units": "7", "burst_units": "0", "overcommit_percent": "100"},
    )

    assert "would have 7 large" in answer.content.decode()
    limit.refresh_from_db()
    assert limit.limit_units == 4
    assert audit_actions() == []


def test_an_auditor_looks_and_changes_nothing(cast: Cast) -> None:
    limit, request = make_limit(cast.acme, cast.llm), submit(cast, cast.bob)
    client = enter(cast.ann)

    changed = client.post(f"/admin/quotas/quotalimit/{limit.pk}/change/", {"limit_units": "1"})
    press(client, "quotarequest", "approve_requests", request.pk)

    assert changed.status_code == 403
    assert client.get(BOARD).status_code == 200
    request.refresh_from_db()
    assert (request.state, QuotaLimit.objects.get().limit_units) == ("submitted", 8)


@pytest.mark.parametrize(
    ("button", "state"), [("approve_requests", "approved"), ("reject_requests", "rejected")]
)
def test_a_request_is_decided_by_the_person_who_is_signed_in(
    cast: Cast, button: str, state: str
) -> None:
    request = submit(cast, cast.bob)

    page = press(enter(cast.frank), "quotarequest", button, request.pk)

    request.refresh_from_db()
    assert f"is {state}." in page
    assert (request.state, request.decided_by) == (state, cast.frank)


def test_the_own_request_is_refused_with_the_reason(cast: Cast) -> None:
    grant(cast.bob, Role.PLATFORM_ADMIN)
    request = submit(cast, cast.bob)

    page = press(enter(cast.bob), "quotarequest", "approve_requests", request.pk)

    request.refresh_from_db()
    assert "You made this request, so somebody else decides it." in page
    assert request.state == "submitted"
    assert not QuotaLimit.objects.exists()


def test_a_target_shows_desired_live_and_used_side_by_side(cast: Cast) -> None:
    bind(make_cluster(), "llm", cast.llm)
    make_limit(cast.acme, cast.llm, units=8)
    refresh_targets(at=AT, actor=system_actor("tests"))
    target = EnforcementTarget.objects.get()
    target.live_hard, target.live_used = {"requests.nvidia.com/gpu": 5}, {}
    target.save()

    page = enter(cast.ann).get(f"/admin/quotas/enforcementtarget/{target.pk}/change/")

    assert "Nominal units" in page.content.decode()
    assert enter(cast.ann).get("/admin/quotas/enforcementtarget/999/change/").status_code == 302

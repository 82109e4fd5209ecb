"""Tests of sessions: they end by age and idleness, and their person lists and ends them."""

import re
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, PersonSession
from tenants.selectors.actors import actor_of_user
from tenants.services.identity.sessions import delete_ended_sessions
from tests.support.cast import Cast
from tests.support.tenants.clients import api_client
from tests.support.tenants.desk import enter

ME, HERE = "/api/v1/me/", "/api/v1/sessions/"
PASSWORD = "correct horse battery"


def sign_in(user: User, browser: str = "Firefox") -> Client:
    """Return a browser that has filled in the sign-in page."""
    client = Client(headers={"user-agent": browser})
    answer = client.post("/admin/login/", {"username": user.username, "password": PASSWORD})
    assert answer.status_code == 302
    return client


def status(client: Client) -> int:
    return int(client.get(ME).status_code)


@pytest.mark.parametrize(("minutes", "uses", "expected"), [(59, 12, 200), (61, 1, 401)])
def test_a_session_ends_when_it_is_not_used(
    cast: Cast, minutes: int, uses: int, expected: int
) -> None:
    start = timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        client = enter(cast.frank)
        for _ in range(uses):
            clock.shift(timedelta(minutes=minutes / uses if expected == 200 else minutes))
            answered = status(client)

    assert answered == expected


def test_a_session_that_is_used_all_day_ends_with_it(cast: Cast) -> None:
    start = timezone.now()
    with time_machine.travel(start, tick=False) as clock:
        client = enter(cast.frank)
        seen = []
        for _ in range(24):
            clock.shift(timedelta(minutes=30))
            seen.append(status(client))

    assert seen == [200] * 23 + [401]


def test_ones_own_sessions_are_listed_without_their_keys_and_ended(cast: Cast) -> None:
    here, phone = sign_in(cast.frank), sign_in(cast.frank, browser="Phone")
    stranger = enter(cast.dora)
    keys = list(PersonSession.objects.values_list("session_key", flat=True))

    listed = here.get(HERE)
    page = here.get("/accounts/").content.decode()

    rows = listed.json()["results"]
    assert [(row["browser"], row["is_current"]) for row in rows] == [
        ("Phone", False),
        ("Firefox", True),
    ]
    assert "Phone" in page
    assert not [key for key in keys if key in page + listed.content.decode()]

    other = PersonSession.objects.get(user=cast.dora).public_id
    unseen = here.post("/accounts/sessions/end/", {"session": str(other)}, follow=True)
    here.post("/accounts/sessions/end/", {"session": rows[0]["id"]})

    assert "There is no such session." in unseen.content.decode()
    assert [status(client) for client in (here, phone, stranger)] == [200, 401, 200]
    assert AuditEntry.objects.get(action="tenants:session:end").facts["sessions"] == 1


def test_all_others_are_ended_at_once(cast: Cast) -> None:
    here, *others = [sign_in(cast.frank) for _ in range(3)]

    page = here.post("/accounts/sessions/end/", follow=True).content.decode()

    assert "2 sessions have ended." in page
    assert [status(client) for client in (here, *others)] == [200, 401, 401]


def test_a_token_ends_sessions_of_its_person_unless_it_is_limited(cast: Cast) -> None:
    browser = enter(cast.frank)
    limited = api_client(cast.frank, scopes=("tenants:membership:write",))
    whole = api_client(cast.frank)
    session = whole.get(HERE).json()["results"][0]["id"]

    refused = [
        limited.post(f"{HERE}{session}/end/").status_code,
        limited.post(f"{HERE}end-others/").status_code,
        api_client(cast.dora).post(f"{HERE}{session}/end/").status_code,
    ]
    before = status(browser)
    ended = whole.post(f"{HERE}{session}/end/").status_code

    assert (refused, before) == ([404, 403, 404], 200)
    assert (ended, status(browser)) == (204, 401)
    assert whole.post(f"{HERE}end-others/").json() == {"ended": 0}


def test_a_page_needs_a_person_who_is_signed_in() -> None:
    for path in ("/accounts/", "/accounts/password/"):
        assert re.match("/accounts/sign-in/", Client().get(path)["Location"])
    for path in ("/accounts/tokens/", "/accounts/first-token/", "/accounts/sessions/end/"):
        assert re.match("/accounts/sign-in/", Client().post(path)["Location"])


def test_what_has_ended_by_itself_is_deleted(cast: Cast) -> None:
    enter(cast.frank)
    later = timezone.now() + timedelta(days=1)
    kept = enter(cast.dora)
    PersonSession.objects.filter(user=cast.dora).update(expire_date=later + timedelta(days=1))

    assert delete_ended_sessions(actor=system_actor("tests"), at=later) == 1
    assert status(kept) == 200
    with pytest.raises(ValueError, match="only the service itself"):
        delete_ended_sessions(actor=actor_of_user(cast.frank), at=later)

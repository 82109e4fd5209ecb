"""Attacks on the admin's sign-in: guesses, and attempts to lock people out."""

import re
import time
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.hashers import MD5PasswordHasher, make_password
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from config.monitoring.health import proxy_problem
from tenants.admin.sign_in import PROXY_UNNAMED
from tenants.domain.actors import system_actor
from tenants.domain.refusals import TooManyAttemptsError
from tenants.models import AttemptCount, AuditEntry, KnownNetwork
from tenants.services.identity.people import set_password
from tenants.services.identity.sign_in import KNOWN_FOR, SPAN, purge_attempts
from tests.support.builders import AT, audited, make_user
from tests.support.cast import Cast

RIGHT = "correct horse battery"
NEW = "a much longer phrase"
HASHERS = "django.contrib.auth.hashers"
OFFICE, ELSEWHERE = "192.0.2.1", "203.0.113.9"
SWEEP = system_actor("tenants.tick")
SPAN_LEFT_SECONDS = 10


@pytest.fixture(autouse=True)
def one_span() -> None:
    """Begin where the span that attempts are counted in, of the real clock, lasts long enough."""
    left = SPAN.total_seconds() - time.time() % SPAN.total_seconds()
    if left < SPAN_LEFT_SECONDS:
        time.sleep(left)


class CountingHasher(MD5PasswordHasher):
    """Counts how often a password is looked at."""

    looked_at = 0

    def encode(self, password: str, salt: str) -> str:
        type(self).looked_at += 1
        return super().encode(password, salt)


def sign_in(username: str, password: str = RIGHT, *, address: str = OFFICE) -> bool:
    """Send the form; return whether it opened a session."""
    client = Client(REMOTE_ADDR=address)
    client.post("/admin/login/", {"username": username, "password": password})
    return "_auth_user_id" in client.session


def guess(username: str, *, address: str, times: int = 1, password: str = "wrong") -> int:  # noqa: S107 - A guess.
    """Guess past the pages; return how many guesses were refused."""
    refused = 0
    for _ in range(times):
        try:
            authenticate(
                RequestFactory(REMOTE_ADDR=address).get("/"), username=username, password=password
            )
        except TooManyAttemptsError:
            refused += 1
    return refused


def entries(verb: str) -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action=f"tenants:sign_in:{verb}").order_by("id"))


def test_after_many_wrong_passwords_the_right_one_is_not_looked_at(cast: Cast) -> None:
    guess("dora", address=ELSEWHERE, times=60)

    assert not sign_in("dora", address=ELSEWHERE)
    (failed,) = entries("fail")
    assert (failed.object_kind, failed.object_id) == ("user", str(cast.dora.pk))
    assert failed.facts == {"network": f"{ELSEWHERE}/32", "attempts": 1}
    (refused,) = entries("refuse")
    assert (refused.object_kind, refused.object_id) == ("network", f"{ELSEWHERE}/32")


def test_the_page_of_a_refusal_says_when_to_try_again(cast: Cast) -> None:
    guess(cast.dora.username, address=ELSEWHERE, times=20)

    page = Client(REMOTE_ADDR=ELSEWHERE).post(
        "/admin/login/", {"username": "dora", "password": RIGHT}
    )

    said = r"Too many attempts failed; the next is looked at in (1 minute|\d\d? minutes)\."
    assert re.search(said, page.content.decode())
    assert page.status_code == 429
    assert 0 < int(page["Retry-After"]) <= 600


def change_password(client: Client, old: str, *, address: str = OFFICE) -> Any:  # noqa: ANN401 - The test client's answer.
    fields = {"old_password": old, "new_password1": NEW, "new_password2": NEW}
    return client.post("/admin/password_change/", fields, REMOTE_ADDR=address)


def test_guesses_at_the_old_password_of_a_session_are_limited_as_at_sign_in(cast: Cast) -> None:
    stolen = Client()
    stolen.force_login(cast.dora)

    pages = [change_password(stolen, "wrong", address=ELSEWHERE) for _ in range(10)]
    right = change_password(stolen, RIGHT, address=ELSEWHERE)

    assert {page.status_code for page in pages} == {200}
    assert right.status_code == 429
    assert 0 < int(right["Retry-After"]) <= 600
    assert "the next is looked at in" in right.context["form"].errors["old_password"][0]
    cast.dora.refresh_from_db()
    assert cast.dora.check_password(RIGHT)
    assert not sign_in("dora", address=ELSEWHERE)
    assert [entry.object_id for entry in entries("fail")] == [str(cast.dora.pk)]


def test_the_right_old_password_counts_as_no_failure(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.dora)
    change_password(client, "wrong")

    changed = change_password(client, RIGHT)

    assert changed.status_code == 302
    assert set(AttemptCount.objects.values_list("attempts", flat=True)) == {1}
    assert client.get("/api/v1/me/").status_code == 200


def test_a_sign_in_is_in_the_trail_with_its_network(cast: Cast) -> None:
    assert sign_in("dora")

    (entry,) = entries("succeed")
    assert (entry.actor_label, entry.object_id) == ("dora", str(cast.dora.pk))
    assert entry.facts == {"network": f"{OFFICE}/32"}


@override_settings(PASSWORD_HASHERS=[f"{__name__}.CountingHasher"])
@pytest.mark.parametrize("username", ["dora", "no-such-account"])
def test_of_1000_guesses_from_1000_networks_at_most_20_are_looked_at(
    cast: Cast, username: str
) -> None:
    cast.dora.set_password(RIGHT)
    cast.dora.save(update_fields=["password"])
    sign_in("dora")
    CountingHasher.looked_at = 0

    with CaptureQueriesContext(connection) as statements:
        for number in range(1000):
            guess(username, address=f"198.18.{number // 250}.{number % 250}")

    assert CountingHasher.looked_at <= 20
    # What the first refusals and failures of a span leave; a second one may begin meanwhile.
    assert len(statements) < 1000 + 2 * 100
    assert len(entries("fail") + entries("refuse")) <= 25
    assert sign_in("dora")
    assert guess("dora", address=ELSEWHERE, password=RIGHT) == (username == "dora")


@pytest.mark.usefixtures("committed_db")
@override_settings(
    PASSWORD_HASHERS=[f"{HASHERS}.MD5PasswordHasher", f"{HASHERS}.PBKDF2PasswordHasher"]
)
def test_a_password_hashed_in_an_older_way_signs_in_and_is_hashed_anew() -> None:
    user = make_user("dora", is_staff=True)
    older = make_password(RIGHT, hasher="pbkdf2_sha256")
    with audited():
        User.objects.filter(pk=user.pk).update(password=older)

    assert sign_in("dora")

    user.refresh_from_db()
    assert user.password != older
    assert AuditEntry.objects.filter(action="tenants:user:rehash_password").count() == 1


@pytest.mark.usefixtures("cast")
def test_guesses_from_my_own_network_at_others_do_not_refuse_me() -> None:
    sign_in("dora")
    sign_in("frank", address=ELSEWHERE)

    guess("frank", address=OFFICE, times=50)

    assert sign_in("dora")
    assert not sign_in("frank")
    assert sign_in("frank", address=ELSEWHERE)


@pytest.mark.usefixtures("cast")
def test_guesses_from_a_network_that_the_account_knows_are_limited_too() -> None:
    sign_in("dora")

    assert guess("dora", address=OFFICE, times=60) >= 40
    assert sign_in("dora", address=ELSEWHERE)


@pytest.mark.usefixtures("cast")
def test_own_sign_ins_do_not_reset_the_count_of_a_network() -> None:
    for _ in range(10):
        guess("dora", address=ELSEWHERE, times=2)
        sign_in("mallory", address=ELSEWHERE)

    assert not sign_in("dora", address=ELSEWHERE)


@pytest.mark.usefixtures("cast")
def test_what_was_typed_as_an_unknown_name_is_stored_nowhere() -> None:
    typed = "my own pass phrase"
    guess(typed, address=ELSEWHERE, times=15)
    purge_attempts(actor=SWEEP, at=timezone.now() + timedelta(hours=1))

    stored = [str(entry.facts) + entry.object_id for entry in AuditEntry.objects.all()]
    assert not any(typed in text or "wrong" in text for text in stored)
    assert [entry.object_kind for entry in entries("fail") + entries("refuse")] == ["network"] * 2


@pytest.mark.usefixtures("cast")
def test_a_span_that_is_over_leaves_one_entry_with_the_number() -> None:
    guess("dora", address=ELSEWHERE, times=60)
    sign_in("frank")
    at = timezone.now()

    purged_early = purge_attempts(actor=SWEEP, at=at - timedelta(minutes=10))
    purge_attempts(actor=SWEEP, at=at + timedelta(hours=1))

    assert purged_early == 0
    assert not AttemptCount.objects.exists()
    counted = [(one.object_kind, one.facts["attempts"]) for one in entries("count")]
    assert sorted(counted) == [("network", 60), ("user", 10)]
    assert KnownNetwork.objects.count() == 1
    purge_attempts(actor=SWEEP, at=at + KNOWN_FOR + timedelta(hours=1))
    assert not KnownNetwork.objects.exists()


@pytest.mark.usefixtures("cast")
def test_guesses_from_my_own_network_do_not_refuse_my_own_browser() -> None:
    mine = Client(REMOTE_ADDR=OFFICE)
    mine.post("/admin/login/", {"username": "dora", "password": RIGHT})
    cookie = mine.cookies["device"]
    mine.cookies.pop("sessionid")
    guess("dora", address=OFFICE, times=11)
    stranger = sign_in("dora")

    page = mine.post("/admin/login/", {"username": "dora", "password": RIGHT})

    assert (stranger, page.status_code) == (False, 302)
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")


def test_browsers_and_networks_of_an_old_password_are_known_no_more(cast: Cast) -> None:
    thief = Client(REMOTE_ADDR=ELSEWHERE)
    thief.post("/admin/login/", {"username": "dora", "password": RIGHT})
    set_password(user=cast.dora, password="a much longer phrase", by="host", actor=SWEEP, at=AT)

    thief.post("/admin/login/", {"username": "dora", "password": "wrong"})

    assert not KnownNetwork.objects.exists()
    counted = AttemptCount.objects.exclude(attempts=0).values_list("kind", flat=True)
    assert sorted(counted) == ["account", "network"]


@pytest.mark.usefixtures("cast")
def test_a_browser_has_a_limit_of_its_own_and_for_one_account() -> None:
    mine, forged = Client(REMOTE_ADDR=OFFICE), Client(REMOTE_ADDR=ELSEWHERE)
    mine.post("/admin/login/", {"username": "dora", "password": RIGHT})
    forged.cookies["device"] = mine.cookies["device"].value.replace(":", "x:", 1)

    wrong = [mine.post("/admin/login/", {"username": "dora", "password": "x"}) for _ in range(11)]
    other = [mine.post("/admin/login/", {"username": "ann", "password": "x"}) for _ in range(11)]
    forged.post("/admin/login/", {"username": "dora", "password": "x"})

    for pages in (wrong, other):
        assert [page.status_code for page in pages] == [200] * 10 + [429]
    assert sorted(AttemptCount.objects.values_list("kind", "attempts")) == [
        *(("account", 1), ("account", 10), ("device", 11)),
        *(("network", 1), ("network", 11)),
    ]


@pytest.mark.usefixtures("cast")
def test_a_refused_network_adds_no_row_for_each_name_it_tries() -> None:
    for number in range(60):
        guess(f"made-up-{number}", address=ELSEWHERE)

    assert AttemptCount.objects.count() == 11


def test_a_person_renamed_keeps_the_networks_that_are_known(cast: Cast) -> None:
    sign_in("dora")
    User.objects.filter(pk=cast.dora.pk).update(username="dora.b")
    guess("frank", address=OFFICE, times=50)

    assert sign_in("dora.b")


def test_a_right_password_of_a_person_without_staff_status_is_audited_and_no_failure(
    cast: Cast,
) -> None:
    User.objects.filter(pk=cast.alice.pk).update(is_staff=False)

    assert [sign_in("alice", address=ELSEWHERE) for _ in range(12)] == [False] * 12

    assert {(one.object_id, one.facts["network"]) for one in entries("deny")} == {
        (str(cast.alice.pk), f"{ELSEWHERE}/32")
    }
    assert not entries("fail")
    assert not AttemptCount.objects.filter(attempts__gt=0).exists()


def test_a_proxy_that_the_settings_do_not_name_is_named_by_readiness(cast: Cast) -> None:
    PROXY_UNNAMED.clear()
    before = proxy_problem()

    Client(headers={"x-forwarded-for": "203.0.113.9"}).post(
        "/admin/login/", {"username": cast.dora.username, "password": "x"}
    )

    assert before == ""
    assert "Set TRUSTED_PROXIES" in Client().get("/readyz").json()["proxies"]
    PROXY_UNNAMED.clear()


@pytest.mark.parametrize("weak", ["short", "password123456", "829405718236", "dora.example"])
def test_weak_passwords_are_refused(cast: Cast, weak: str) -> None:
    client = Client()
    client.force_login(cast.dora)

    page = client.post(
        "/admin/password_change/",
        {"old_password": RIGHT, "new_password1": weak, "new_password2": weak},
    )

    assert page.status_code == 200
    cast.dora.refresh_from_db()
    assert cast.dora.check_password(RIGHT)

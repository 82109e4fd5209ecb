"""Tests of the admin pages of people: no person sets another's password, and two raise one."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.utils import timezone

from tenants.domain.actors import system_actor
from tenants.models import ApiToken, AuditEntry
from tenants.services.identity.sign_in import purge_attempts
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.tenants.desk import committed, enter, links_sent

NEW = "a much longer phrase"


def trail() -> list[AuditEntry]:
    return list(AuditEntry.objects.order_by("pk"))


def test_a_platform_admin_does_not_sign_in_as_the_finance_admin(cast: Cast) -> None:
    """The attack: set her password in the admin, sign in, take a year's token."""
    frank, before = enter(cast.frank), cast.dora.password
    for page in ("password", "change"):
        frank.post(
            f"/admin/auth/user/{cast.dora.pk}/{page}/",
            {
                "username": "dora",
                "email": cast.dora.email,
                "is_staff": "on",
                "usable_password": "true",
                "password1": NEW,
                "password2": NEW,
                "password": NEW,
            },
        )

    cast.dora.refresh_from_db()
    assert cast.dora.password == before
    assert not Client().login(username="dora", password=NEW)


def test_a_person_is_made_without_a_password_and_gets_a_link_that_who_made_it_never_sees(
    cast: Cast,
) -> None:
    client = enter(cast.frank)

    with committed():
        made = client.post(
            "/admin/auth/user/add/",
            {
                "username": "newcomer",
                "email": "newcomer@example.test",
                "usable_password": "true",
                "password1": NEW,
                "password2": NEW,
            },
            follow=True,
        )

    newcomer = User.objects.get(username="newcomer")
    assert not newcomer.has_usable_password()
    [link] = links_sent()
    assert mail.outbox[0].to == ["newcomer@example.test"]
    assert link not in made.content.decode()
    trail = [(e.action, e.facts) for e in AuditEntry.objects.order_by("pk")]
    assert [action for action, _ in trail] == ["tenants:user:create", "tenants:user:password_link"]
    assert link.split("/")[-2] not in str(trail)


@pytest.mark.parametrize("role", ["finance_admin", "platform_admin", "auditor"])
def test_one_person_alone_gives_no_role_of_the_platform(cast: Cast, role: str) -> None:
    page = enter(cast.frank).post(
        "/admin/tenants/membership/add/", {"role": role, "user": cast.carol.pk}
    )

    assert "another platform admin decides" in page.content.decode()
    assert [m.role for m in cast.carol.memberships.all()] == ["member"]
    (entry,) = trail()
    assert (entry.action, entry.facts["username"], entry.facts["role"]) == (
        "tenants:membership:refuse",
        "carol",
        role,
    )


def test_one_person_alone_neither_opens_the_admin_nor_moves_a_guarded_address(cast: Cast) -> None:
    User.objects.filter(pk=cast.carol.pk).update(is_staff=False)
    frank = enter(cast.frank)

    for person, changes in (
        (cast.carol, {"is_staff": "on"}),
        (cast.dora, {"email": "frank@example.test", "is_staff": "on"}),
        (cast.ann, {"email": "frank@example.test", "is_staff": "on"}),
        (cast.frank, {"email": "mallory@example.test", "is_staff": "on"}),
    ):
        page = frank.post(
            f"/admin/auth/user/{person.pk}/change/",
            {"username": person.username, "email": person.email, **changes},
        )
        assert "another platform admin decides" in page.content.decode(), person

    people = User.objects.filter(username__in=("carol", "dora", "ann", "frank"))
    assert all(person.email == f"{person.username}@example.test" for person in people)
    assert not User.objects.get(pk=cast.carol.pk).is_staff
    assert [(e.action, e.actor_label, e.facts["username"]) for e in trail()] == [
        ("tenants:user:refuse", "frank", name) for name in ("carol", "dora", "ann", "frank")
    ]
    assert trail()[1].facts == {
        "code": "second_person_required",
        "fields": {"email": "second_person_required"},
        "username": "dora",
        "wanted": "frank@example.test",
    }


def test_a_change_is_audited_with_what_was_before_and_after(cast: Cast) -> None:
    enter(cast.frank).post(
        f"/admin/auth/user/{cast.carol.pk}/change/",
        {"username": "carol", "first_name": "Carol", "email": "c@example.test"},
    )

    entry = AuditEntry.objects.get(action="tenants:user:update")
    assert entry.facts["changed"] == {
        "first_name": ["", "Carol"],
        "email": ["carol@example.test", "c@example.test"],
        "is_staff": [True, False],
    }


def test_a_link_sets_the_password_once_and_ends_tokens_and_sessions(cast: Cast) -> None:
    old = enter(cast.carol)
    ApiToken.objects.create(
        prefix="0" * 12, digest=b"x", user=cast.carol, created_at=AT, expires_at=AT.replace(2100)
    )
    with committed():
        enter(cast.frank).post(
            "/admin/auth/user/", {"action": "send_links", "_selected_action": str(cast.carol.pk)}
        )
    [link] = links_sent()

    visitor = Client()
    form = visitor.get(link, follow=True)
    form_path = form.redirect_chain[-1][0]
    fields = {"new_password1": NEW, "new_password2": NEW}
    done = visitor.post(form_path, fields, follow=True)
    again = [visitor.post(form_path, fields), Client().get(link, follow=True)]

    assert "The password is set" in done.content.decode()
    assert ["used before" in answer.content.decode() for answer in again] == [True, True]
    assert AuditEntry.objects.filter(action="tenants:user:password_link_refused").count() == 1
    assert Client().login(username="carol", password=NEW)
    assert ApiToken.objects.get().revoked_at is not None
    assert old.get("/api/v1/me/").status_code == 401
    entry = AuditEntry.objects.get(action="tenants:user:password")
    assert entry.facts == {"username": "carol", "by": "link", "tokens_revoked": 1}


@pytest.mark.usefixtures("cast")
@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("/accounts/password/OTk5OTk/forged-token/", "password"),
        ("/accounts/address/forged:x:y/", "address"),
        ("/accounts/invitation/forged/", "invitation"),
    ],
)
def test_links_that_were_never_sent_leave_one_entry_for_each_network(path: str, link: str) -> None:
    for address in ("192.0.2.1", "192.0.2.1", "203.0.113.9"):
        Client(REMOTE_ADDR=address).post(path)

    assert [(e.action, e.object_id, e.facts["link"]) for e in trail()] == [
        ("tenants:link:refuse", "192.0.2.1/32", link),
        ("tenants:link:refuse", "203.0.113.9/32", link),
    ]
    purge_attempts(actor=system_actor("tests"), at=timezone.now() + timedelta(hours=1))
    counted = trail()[-1]
    assert (counted.action, counted.facts["attempts"]) == ("tenants:link:count", 2)


def test_who_forgot_the_password_is_answered_alike_for_every_address(cast: Cast) -> None:
    cast.carol.set_unusable_password()
    cast.carol.save()

    with committed():
        answers = [
            Client().post("/accounts/new-password/", {"email": email}, follow=True)
            for email in ("carol@example.test", "stranger@example.test", "carol@example.test")
        ]

    pages = {re.sub(r'value="[^"]{64}"', "", answer.content.decode()) for answer in answers}
    assert len(pages) == 1
    assert len(links_sent()) == 1
    assert mail.outbox[0].to == ["carol@example.test"]


def test_a_link_is_made_of_our_own_address_whatever_a_request_says(cast: Cast) -> None:
    with committed():
        Client().post(
            "/accounts/new-password/", {"email": cast.dora.email}, headers={"host": "localhost"}
        )

    [link] = links_sent(host="http://127.0.0.1:8000")
    assert link.startswith("/accounts/password/")


def test_ones_own_new_password_is_audited_ends_tokens_and_keeps_this_session(cast: Cast) -> None:
    here, elsewhere = Client(), enter(cast.carol)
    here.login(username="carol", password="correct horse battery")

    here.post(
        "/admin/password_change/",
        {
            "old_password": "correct horse battery",
            "new_password1": NEW,
            "new_password2": NEW,
        },
    )

    assert here.get("/api/v1/me/").status_code == 200
    assert elsewhere.get("/api/v1/me/").status_code == 401
    assert AuditEntry.objects.get(action="tenants:user:password").facts["by"] == "own"


def test_nobody_makes_themselves_superuser_in_the_form(cast: Cast) -> None:
    enter(cast.frank).post(
        f"/admin/auth/user/{cast.frank.pk}/change/",
        {"username": "frank", "is_superuser": "on", "is_staff": "on"},
    )

    assert not User.objects.get(pk=cast.frank.pk).is_superuser


def test_the_last_platform_admin_is_not_deactivated(cast: Cast) -> None:
    page = enter(cast.frank).post(
        "/admin/auth/user/",
        {"action": "deactivate_people", "_selected_action": str(cast.frank.pk)},
        follow=True,
    )

    assert "Make another person platform admin first." in page.content.decode()
    assert User.objects.get(pk=cast.frank.pk).is_active

"""Tests of changes that take two people: who asks, who decides, and what is refused."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client, override_settings
from django.utils import timezone

from tenants.domain.identity.roles import Role
from tenants.models import AccountChange, ApiToken, AuditEntry
from tenants.selectors.actors import actor_of_user
from tenants.services.identity.people import deactivate_user
from tenants.services.identity.tokens import issue_token
from tests.support.builders import audited, grant, make_user
from tests.support.cast import Cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.desk import committed, enter, links_sent

PAGE = "/admin/tenants/accountchange/"
PEOPLE = "/admin/auth/user/"
NEW = "a much longer phrase"


@shared_rows
def fiona(cast: Cast) -> User:  # noqa: ARG001 - She is Frank's colleague.
    """Return a second platform admin."""
    made = make_user("fiona", is_staff=True)
    grant(made, Role.PLATFORM_ADMIN)
    return made


def ask(client: Client, kind: str, subject: User, value: str = "") -> str:
    answer = client.post(f"{PAGE}add/", {"kind": kind, "subject": subject.pk, "value": value})
    return "" if answer.status_code == 302 else answer.content.decode()


def decide(client: Client, action: str = "approve_changes") -> str:
    ids = [str(pk) for pk in AccountChange.objects.values_list("pk", flat=True)]
    answer = client.post(PAGE, {"action": action, "_selected_action": ids}, follow=True)
    return answer.content.decode()


def set_password(link: str) -> None:
    """Set a password by a link, as who reads the mailbox does."""
    visitor = Client()
    form = visitor.get(link, follow=True).redirect_chain[-1][0]
    visitor.post(form, {"new_password1": NEW, "new_password2": NEW})


def signs_in(username: str) -> bool:
    """Whether the password set by a link opens a session."""
    visitor = Client()
    visitor.post("/admin/login/", {"username": username, "password": NEW})
    return "_auth_user_id" in visitor.session


def refused() -> list[str]:
    """Return the codes of the refusals in the trail."""
    entries = AuditEntry.objects.filter(action="tenants:account_change:refuse").order_by("pk")
    return [entry.facts["code"] for entry in entries]


def test_two_people_make_a_finance_admin(cast: Cast, fiona: User) -> None:
    assert not ask(enter(cast.frank), "role", cast.carol, "finance_admin")

    decide(enter(fiona))

    assert cast.carol.memberships.filter(role=Role.FINANCE_ADMIN).exists()
    change = AccountChange.objects.get()
    assert (change.state, change.requested_by, change.decided_by) == ("approved", cast.frank, fiona)
    assert [e.action for e in AuditEntry.objects.order_by("pk")] == [
        "tenants:account_change:create",
        "tenants:membership:create",
        "tenants:user:end_credentials",
        "tenants:account_change:approve",
    ]


def test_a_second_person_is_neither_the_first_nor_whom_it_raises(cast: Cast, fiona: User) -> None:
    frank, gwen = enter(cast.frank), make_user("gwen", is_staff=True)
    grant(gwen, Role.PLATFORM_ADMIN)
    User.objects.filter(pk=gwen.pk).update(is_staff=False)
    ask(frank, "staff", gwen)
    ask(enter(fiona), "role", cast.frank, "auditor")

    User.objects.filter(pk=gwen.pk).update(is_staff=True)
    decide(enter(gwen))
    decide(frank)
    decide(enter(cast.dora))

    assert set(AccountChange.objects.values_list("kind", "state")) == {
        ("staff", "open"),
        ("role", "open"),
    }
    assert "account_change_not_yours" in refused()
    assert cast.frank.memberships.count() == 1


def test_what_is_decided_or_too_old_is_not_decided_again(cast: Cast, fiona: User) -> None:
    ask(enter(cast.frank), "role", cast.carol, "finance_admin")
    decide(enter(fiona), "decline_changes")
    again = decide(enter(fiona))

    ask(enter(cast.frank), "role", cast.carol, "finance_admin")
    AccountChange.objects.filter(state="open").update(expires_at=timezone.now())
    late = decide(enter(fiona))

    assert "This was declined before. Ask for the change again." in again
    assert "This was not decided in time. Ask for the change again." in late
    # The list's action takes both changes: the first is still decided.
    assert sorted(refused()) == [
        "account_change_decided",
        "account_change_decided",
        "account_change_expired",
    ]
    assert not cast.carol.memberships.filter(role=Role.FINANCE_ADMIN).exists()


def test_what_has_expired_can_be_asked_for_again_and_what_is_open_cannot(
    cast: Cast, fiona: User
) -> None:
    frank = enter(cast.frank)
    ask(frank, "role", cast.carol, "finance_admin")
    assert "Decide on the open one" in ask(enter(fiona), "role", cast.carol, "finance_admin")

    AccountChange.objects.update(expires_at=timezone.now() - timedelta(days=1))
    ask(frank, "role", cast.carol, "finance_admin")

    assert sorted(AccountChange.objects.values_list("state", flat=True)) == ["expired", "open"]


def test_alone_or_without_mail_nothing_is_asked_for_over_the_web(cast: Cast) -> None:
    alone = ask(enter(cast.frank), "role", cast.carol, "finance_admin")
    grant(make_user("fiona"), Role.PLATFORM_ADMIN)
    with override_settings(EMAIL_BACKEND="django.core.mail.backends.dummy.EmailBackend"):
        mute = ask(enter(cast.frank), "role", cast.carol, "finance_admin")

    assert "manage.py person" in alone
    assert "manage.py person" in mute
    assert refused() == ["second_person_missing"] * 2
    assert not AccountChange.objects.exists()


def test_who_has_no_role_for_it_asks_for_nothing_of_others(cast: Cast, fiona: User) -> None:
    assert fiona.is_active

    for kind, value in (("role", "platform_admin"), ("email", "x@example.test"), ("staff", "")):
        assert "not yours to ask for" in ask(enter(cast.dora), kind, cast.carol, value)

    assert refused() == ["account_change_not_yours"] * 3


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("frank", ["role", "staff", "first_token", "email", "username", "activate"]),
        ("dora", ["first_token", "email", "username"]),
        ("ann", ["first_token", "email", "username"]),
    ],
)
def test_the_form_offers_what_the_person_may_ask_for(
    cast: Cast, name: str, kinds: list[str]
) -> None:
    form = enter(getattr(cast, name)).get(f"{PAGE}add/").context["adminform"].form

    offered = [value for value, _ in form.fields["kind"].widget.choices]
    assert [value for value in offered if value] == kinds
    assert form.fields["subject"].initial == (None if name == "frank" else getattr(cast, name).pk)
    people = [str(value) for value, _ in form["subject"].field.widget.choices]
    if name != "frank":
        assert people == [str(getattr(cast, name).pk)]


def test_a_value_that_does_not_fit_is_named(cast: Cast, fiona: User) -> None:
    assert fiona.is_active
    frank = enter(cast.frank)

    assert "Use one of: auditor" in ask(frank, "role", cast.carol, "organization_admin")
    assert "Use one mail address." in ask(frank, "email", cast.dora, "nothing")
    assert not AccountChange.objects.exists()


def test_the_owner_of_the_old_address_confirms_a_new_one_once(cast: Cast, fiona: User) -> None:
    assert fiona.is_active
    with committed():
        ask(enter(cast.frank), "email", cast.dora, "dora@example.org")
    [link] = links_sent()

    stranger = Client()
    looked = stranger.get(link)
    before = User.objects.get(pk=cast.dora.pk).email
    answers = [stranger.post(link).content.decode() for _ in range(4)]
    forged = stranger.post("/accounts/address/forged:x:y/").content.decode()

    assert (looked.status_code, before) == (200, "dora@example.test")
    assert mail.outbox[0].to == ["dora@example.test"]
    assert "The new address is in use." in answers[0]
    assert "This was approved before." in answers[1]
    assert "This link is not valid." in forged
    assert User.objects.get(pk=cast.dora.pk).email == "dora@example.org"
    assert AuditEntry.objects.get(action="tenants:user:update").facts["changed"] == {
        "email": ["dora@example.test", "dora@example.org"]
    }
    assert refused() == ["account_change_decided"]


def test_a_link_to_an_address_that_was_left_moves_nothing(cast: Cast, fiona: User) -> None:
    frank = enter(cast.frank)
    with committed():
        ask(frank, "email", cast.dora, "first@example.org")
        ask(frank, "email", cast.dora, "second@example.org")
    first, second = links_sent()

    Client().post(second)
    answer = Client().post(first).content.decode()
    decide(enter(fiona))

    assert "was changed meanwhile" in answer
    assert User.objects.get(pk=cast.dora.pk).email == "second@example.org"
    assert AccountChange.objects.get(value="first@example.org").state == "open"


def test_the_first_token_of_a_finance_admin_takes_a_second_person(cast: Cast, fiona: User) -> None:
    dora = enter(cast.dora)
    body = {"name": "x", "expires_at": (timezone.now() + timedelta(days=365)).isoformat()}

    before = dora.post("/api/v1/api-tokens/", body, content_type="application/json")
    ask(dora, "first_token", cast.dora)
    decide(dora)
    unapproved = dora.post("/api/v1/api-tokens/", body, content_type="application/json")
    decide(enter(fiona))
    after = dora.post("/api/v1/api-tokens/", body, content_type="application/json")

    assert before.json()["code"] == unapproved.json()["code"] == "second_person_required"
    assert after.status_code == 201
    assert ApiToken.objects.get().user == cast.dora


@pytest.mark.parametrize(("kind", "value"), [("role", "finance_admin"), ("staff", "")])
def test_a_password_set_under_another_address_survives_no_approval(
    cast: Cast, fiona: User, kind: str, value: str
) -> None:
    """The attack: make a person with one's own address, set the password, name the honest one."""
    frank = enter(cast.frank)
    with committed():
        frank.post(f"{PEOPLE}add/", {"username": "eve", "email": "frank-private@example.test"})
    [link] = links_sent()
    set_password(link)
    eve = User.objects.get(username="eve")
    assert eve.has_usable_password()
    User.objects.filter(pk=eve.pk).update(email="eve@example.test")
    ask(frank, kind, eve, value)
    mail.outbox.clear()

    decide(enter(fiona))

    eve.refresh_from_db()
    assert eve.is_staff == (kind == "staff")
    assert eve.memberships.exists() == (kind == "role")
    assert not eve.has_usable_password()
    [link] = links_sent()
    assert mail.outbox[0].to == ["eve@example.test"]
    set_password(link)
    eve.refresh_from_db()
    assert eve.check_password(NEW)


def test_an_address_moved_there_and_back_leaves_no_password_and_is_reported(cast: Cast) -> None:
    frank, before = enter(cast.frank), enter(cast.carol)
    page, fields = f"{PEOPLE}{cast.carol.pk}/change/", {"username": "carol", "is_staff": "on"}

    with committed():
        frank.post(page, {**fields, "email": "frank-private@example.test"})
    [link] = links_sent()
    left = [one.to for one in mail.outbox if "was changed" in one.subject]
    set_password(link)
    assert signs_in("carol")
    with committed():
        frank.post(page, {**fields, "email": "carol@example.test"})

    assert left == [["carol@example.test"]]
    assert not signs_in("carol")
    assert before.get("/api/v1/me/").status_code == 401
    assert not User.objects.get(pk=cast.carol.pk).has_usable_password()


def test_a_person_renamed_meanwhile_is_not_raised(cast: Cast, fiona: User) -> None:
    ask(enter(cast.frank), "role", cast.carol, "finance_admin")
    User.objects.filter(pk=cast.carol.pk).update(username="caroline")

    page = decide(enter(fiona))

    assert "The user name of carol was changed meanwhile." in page
    assert not cast.carol.memberships.filter(role=Role.FINANCE_ADMIN).exists()


def test_two_people_activate_a_guarded_person_without_the_old_password(
    cast: Cast, fiona: User
) -> None:
    gwen = make_user("gwen", is_staff=True)
    grant(gwen, Role.PLATFORM_ADMIN)
    ask(enter(fiona), "role", cast.carol, "auditor")
    deactivate_user(user=fiona, actor=actor_of_user(cast.frank), at=timezone.now())
    frank = enter(cast.frank)

    alone = frank.post(
        PEOPLE, {"action": "activate_people", "_selected_action": str(fiona.pk)}, follow=True
    )
    was_active = User.objects.get(pk=fiona.pk).is_active
    assert not ask(frank, "activate", fiona)
    decide(enter(gwen))

    assert "another platform admin decides" in alone.content.decode()
    assert not was_active
    fiona.refresh_from_db()
    assert (fiona.is_active, fiona.has_usable_password()) == (True, False)
    assert set(AccountChange.objects.values_list("kind", "state")) == {
        ("role", "expired"),
        ("activate", "approved"),
    }
    assert len(links_sent()) == 1


def test_a_token_from_before_a_role_of_the_platform_ends_and_allows_no_other(
    cast: Cast, fiona: User
) -> None:
    at = timezone.now()
    old = issue_token(
        name="old",
        expires_at=at + timedelta(days=300),
        user=cast.carol,
        actor=actor_of_user(cast.carol),
        at=at,
    )
    ask(enter(cast.frank), "role", cast.carol, "finance_admin")
    decide(enter(fiona))

    mine = Client(headers={"authorization": f"Bearer {old.text}"}).get("/api/v1/me/")
    body = {"name": "x", "expires_at": (at + timedelta(days=365)).isoformat()}
    cast.carol.refresh_from_db()
    more = enter(cast.carol).post("/api/v1/api-tokens/", body, content_type="application/json")

    assert mine.status_code == 401
    assert more.json()["code"] == "second_person_required"
    assert ApiToken.objects.get().revoked_at is not None


def test_what_has_expired_guards_nothing_and_can_be_declined(cast: Cast, fiona: User) -> None:
    frank = enter(cast.frank)
    ask(frank, "role", cast.carol, "finance_admin")
    page, fields = f"{PEOPLE}{cast.carol.pk}/change/", {"username": "carol", "is_staff": "on"}
    frank.post(page, {**fields, "email": "early@example.test"})
    AccountChange.objects.update(expires_at=timezone.now())
    frank.post(page, {**fields, "email": "late@example.test"})

    decide(enter(fiona), "decline_changes")

    assert User.objects.get(pk=cast.carol.pk).email == "late@example.test"
    assert AccountChange.objects.get().state == "declined"


def test_two_people_rename_a_guarded_person(cast: Cast, fiona: User) -> None:
    frank = enter(cast.frank)
    fields = {"username": "dora-old", "email": cast.dora.email, "is_staff": "on"}

    alone = frank.post(f"{PEOPLE}{cast.dora.pk}/change/", fields).content.decode()
    name_then = User.objects.get(pk=cast.dora.pk).username
    ask(frank, "username", cast.dora, "dora.b")
    decide(enter(fiona))

    assert "another platform admin decides" in alone
    assert name_then == "dora"
    assert User.objects.get(pk=cast.dora.pk).username == "dora.b"


def test_nothing_is_approved_whose_asker_has_lost_the_role(cast: Cast, fiona: User) -> None:
    ask(enter(cast.frank), "role", cast.carol, "finance_admin")
    with audited():
        cast.frank.memberships.all().delete()
    grant(make_user("grace"), Role.PLATFORM_ADMIN)

    decide(enter(fiona))

    assert not cast.carol.memberships.filter(role=Role.FINANCE_ADMIN).exists()
    assert refused() == ["account_change_outdated"]

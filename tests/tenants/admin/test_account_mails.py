"""Tests of what mails about accounts say: what, by whom, until when, and what to do otherwise."""

from django.contrib.auth.models import User
from django.core import mail

from tenants.domain.identity.roles import Role
from tenants.models import AccountChange, Invitation, Notification, Project
from tests.support.builders import grant, make_user
from tests.support.cast import Cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client
from tests.support.tenants.desk import committed, enter, links_sent

SHOWN = "%-d %B %Y, %H:%M UTC"


@shared_rows
def fiona(cast: Cast) -> User:  # noqa: ARG001 - She is Frank's colleague.
    """Return a second platform admin."""
    made = make_user("fiona", is_staff=True)
    grant(made, Role.PLATFORM_ADMIN)
    return made


def last_mail() -> str:
    """Return the text of the mail that was sent last, each paragraph on one line."""
    assert links_sent()
    return str(mail.outbox[-1].body)


def test_an_invitation_names_role_scope_inviter_and_end(cast: Cast) -> None:
    Project.objects.filter(pk=cast.llm.pk).update(name="Language\r\nmodels")
    body = {"email": "eve@example.test", "role": "project_lead", "project": str(cast.llm.pk)}
    with committed():
        api_client(cast.alice).post("/api/v1/invitations/", body)

    text, end = last_mail(), Invitation.objects.get().expires_at

    assert "alice (alice@example.test) invites you" in text
    assert "project lead of the project Language models of Acme" in text
    assert f"It can be used once, until {end:{SHOWN}}." in text
    assert "do nothing: without the link no role is given" in text


def test_an_invitation_into_an_organization_names_it(cast: Cast) -> None:
    body = {"email": "eve@x.test", "role": "organization_admin", "organization": str(cast.acme.pk)}
    with committed():
        api_client(cast.frank).post("/api/v1/invitations/", body)

    assert "organization admin of the organization Acme" in last_mail()


def test_a_link_to_set_a_password_names_the_account_and_the_site(cast: Cast) -> None:
    carols = {"action": "send_links", "_selected_action": str(cast.carol.pk)}
    with committed():
        enter(cast.frank).post("/admin/auth/user/", carols)

    text = last_mail()

    assert "the account carol at http://127.0.0.1:8000" in text
    assert "It can be used once, within a day." in text
    assert "do nothing: the link changes nothing by itself" in text


def test_another_address_names_who_asks_and_what_it_ends(cast: Cast, fiona: User) -> None:
    assert fiona.is_active
    form = {"kind": "email", "subject": cast.dora.pk, "value": "dora@example.org"}
    with committed():
        enter(cast.frank).post("/admin/tenants/accountchange/add/", form)

    text, end = last_mail(), AccountChange.objects.get().expires_at

    assert "frank asks" in text
    assert "the account dora" in text
    assert "from dora@example.test to dora@example.org" in text
    assert f"It can be used once, until {end:{SHOWN}}." in text
    assert "password, sessions and API tokens end" in text
    assert "leave the link alone and write to your platform admins" in text


def test_platform_admins_read_whom_a_change_raises_and_to_what(cast: Cast, fiona: User) -> None:
    assert fiona.is_active
    form = {"kind": "role", "subject": cast.carol.pk, "value": "finance_admin"}
    enter(cast.frank).post("/admin/tenants/accountchange/add/", form)

    text, end = Notification.objects.get().text, AccountChange.objects.get().expires_at

    assert "frank asks for a change to the account of carol (carol@example.test)" in text
    assert "the role finance admin, which reaches every organization" in text
    assert f"until {end:{SHOWN}}" in text
    assert "decline it" in text

"""Tests of giving roles without learning who has an account, nor more than a token may."""

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client, override_settings
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.domain.identity.roles import CAPABILITIES, Role
from tenants.models import AuditEntry, Invitation, Membership
from tenants.services.identity.invitations import NAMES_MAX, TAKEN_MAX
from tenants.services.identity.sign_in import INVITED_MAX
from tests.support.builders import make_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem
from tests.support.tenants.desk import committed, links_sent

pytestmark = pytest.mark.django_db
HERE = "/api/v1/invitations/"
ROLES = "/api/v1/memberships/"


@shared_rows
def cast() -> Cast:
    return make_cast()


def invited(client: APIClient, email: str, **body: str) -> tuple[int, set[str]]:
    """Return the status of an invitation's answer and the fields that it has a value for."""
    with committed():
        answer = client.post(HERE, {"email": email, "role": "member", **body})
    return answer.status_code, {name for name, value in answer.json().items() if value}


def test_a_scoped_token_gives_no_role_that_may_do_more(cast: Cast) -> None:
    narrow = ("tenants:membership:write", "tenants:project:read", "tenants:organization:read")
    wide = (*CAPABILITIES[Role.MEMBER], "tenants:membership:write")
    body = {"user": "carol", "organization": str(cast.acme.pk), "role": "organization_admin"}
    member = {"user": "alice", "project": str(cast.llm.pk), "role": "member"}

    raised = api_client(cast.alice, scopes=narrow).post(ROLES, body)
    platform = api_client(cast.frank, scopes=narrow).post(
        ROLES, {"user": "carol", "role": "platform_admin"}
    )
    alone = api_client(cast.frank).post(ROLES, {"user": "carol", "role": "platform_admin"})
    offered = api_client(cast.alice, scopes=narrow).post(
        HERE, {"email": "x@example.test", "role": "member", "project": str(cast.llm.pk)}
    )
    within = api_client(cast.bob, scopes=wide).post(ROLES, member)

    assert problem(raised) == (403, "role_not_yours_to_give")
    assert (raised.json()["field"], "scopes" in raised.json()["remedy"]) == ("role", True)
    assert problem(platform) == (403, "role_not_yours_to_give")
    assert problem(alone) == (409, "second_person_required")
    assert AuditEntry.objects.get(action="tenants:membership:refuse").actor_label == "frank"
    assert problem(offered) == (403, "role_not_yours_to_give")
    assert within.status_code == 201
    assert Membership.objects.count() == 8


def test_a_lead_neither_adds_an_account_by_name_nor_learns_that_it_exists(cast: Cast) -> None:
    bob = api_client(cast.bob)

    answers = [
        bob.post(ROLES, {"role": "member", "user": name, "project": str(cast.llm.pk)})
        for name in ("mallory", "dora", "no-such-person")
    ]

    assert {(answer.status_code, answer.content) for answer in answers} == {
        (404, answers[0].content)
    }
    assert answers[0].json()["field"] == "user"
    assert Membership.objects.count() == 7
    assert not AuditEntry.objects.exclude(action="tenants:api_token:create").exists()


def test_who_belongs_to_the_organization_is_added_by_name(cast: Cast) -> None:
    answer = api_client(cast.bob).post(
        ROLES, {"role": "member", "user": "alice", "project": str(cast.llm.pk)}
    )

    assert answer.status_code == 201


def test_an_invitation_is_answered_alike_whether_the_address_has_an_account(cast: Cast) -> None:
    bob, project = api_client(cast.bob), str(cast.llm.pk)

    known = invited(bob, cast.mallory.email, project=project)
    unknown = invited(bob, "stranger@example.test", project=project)

    assert known == unknown
    assert known[0] == 201
    assert len(links_sent()) == 2
    assert [message.to for message in mail.outbox] == [
        ["mallory@example.test"],
        ["stranger@example.test"],
    ]


def test_a_stranger_accepts_once_and_gets_a_link_to_set_a_password(cast: Cast) -> None:
    invited(api_client(cast.bob), "eve@example.test", project=str(cast.llm.pk))
    [link] = links_sent()
    visitor = Client()

    looked = visitor.get(link).content.decode()
    with committed():
        accepted = visitor.post(link, {"username": "eve"}).content.decode()
    again = visitor.post(link, {"username": "eve2"}).content.decode()

    assert "Member of LLM" in looked
    assert "The role is yours." in accepted
    assert "This invitation was accepted or withdrawn. Ask for a new invitation." in again
    eve = User.objects.get(email="eve@example.test")
    assert [(m.role, m.project) for m in eve.memberships.all()] == [("member", cast.llm)]
    assert (eve.username, eve.has_usable_password()) == ("eve", False)
    assert links_sent()[-1].startswith("/accounts/password/")
    given = AuditEntry.objects.get(action="tenants:membership:create")
    assert (given.actor_label, given.organization_id) == ("bob", cast.acme.pk)


def test_who_has_an_account_accepts_with_it(cast: Cast) -> None:
    invited(api_client(cast.bob), "Mallory@example.test", project=str(cast.llm.pk))
    [link] = links_sent()

    Client().post(link)

    assert cast.mallory.memberships.filter(project=cast.llm, role=Role.MEMBER).exists()
    assert User.objects.count() == 7


def test_late_withdrawn_and_forged_links_give_nothing(cast: Cast) -> None:
    bob = api_client(cast.bob)
    invited(bob, "late@example.test", project=str(cast.llm.pk))
    invited(bob, "gone@example.test", project=str(cast.llm.pk))
    late, gone = links_sent()
    Invitation.objects.filter(email="late@example.test").update(expires_at=timezone.now())
    withdrawn = bob.post(f"{HERE}{Invitation.objects.get(email='gone@example.test').pk}/withdraw/")

    pages = [
        Client().post(link, {"username": "x"}).content.decode()
        for link in (late, gone, "/accounts/invitation/forged/")
    ]

    assert withdrawn.json()["withdrawn_at"] is not None
    assert ["too old" in pages[0], "withdrawn" in pages[1], "not valid" in pages[2]] == [True] * 3
    assert User.objects.count() == 7
    refused = AuditEntry.objects.filter(action="tenants:invitation:refuse")
    assert [entry.facts["code"] for entry in refused] == ["invitation_closed"] * 2


def test_a_used_link_that_is_sent_again_and_again_leaves_one_entry_an_hour(cast: Cast) -> None:
    invited(api_client(cast.bob), "eve@example.test", project=str(cast.llm.pk))
    [link] = links_sent()
    Client().post(link, {"username": "eve"})
    refused = AuditEntry.objects.filter(action="tenants:invitation:refuse")

    pages = [Client().post(link, {"username": "eve"}).content.decode() for _ in range(3)]
    in_one_hour = refused.count()
    with time_machine.travel(timezone.now() + timedelta(hours=1, minutes=1), tick=False):
        Client().post(link, {"username": "eve"})

    assert all("accepted or withdrawn" in page for page in pages)
    assert (in_one_hour, refused.count()) == (1, 2)


def test_an_inviter_who_may_not_any_more_gives_nothing(cast: Cast) -> None:
    invited(api_client(cast.bob), "eve@example.test", project=str(cast.llm.pk))
    [link] = links_sent()
    cast.bob.memberships.all().delete()

    answer = Client().post(link, {"username": "eve"}).content.decode()

    assert "not yours to offer" in answer
    assert "not yours to offer" in Client().post(link, {"username": "dora"}).content.decode()
    assert not User.objects.filter(username="eve").exists()
    assert Invitation.objects.get().accepted_at is None


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"role": "auditor"}, "role", "not_by_invitation"),
        ({"role": "organization_admin"}, "organization", "scope_required"),
        ({"email": "nothing"}, "email", "not_a_mail_address"),
    ],
)
def test_what_cannot_be_offered_is_named(
    cast: Cast, body: dict[str, str], field: str, code: str
) -> None:
    answer = api_client(cast.frank).post(
        HERE, {"email": "x@example.test", "role": "member", "project": str(cast.llm.pk), **body}
    )

    assert problem(answer) == (422, "invalid_input")
    assert (field, code) in {(p["field"], p["code"]) for p in answer.json()["problems"]}
    assert not Invitation.objects.exists()


def test_the_same_is_offered_once_until_it_expires(cast: Cast) -> None:
    bob, project = api_client(cast.bob), str(cast.llm.pk)
    first = invited(bob, "eve@example.test", project=project)
    second = invited(bob, "eve@example.test", project=project)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(days=1))
    third = invited(bob, "eve@example.test", project=project)

    assert [status for status, _ in (first, second, third)] == [201, 409, 201]


def test_without_a_mail_server_nobody_is_invited(cast: Cast) -> None:
    with override_settings(EMAIL_BACKEND="django.core.mail.backends.dummy.EmailBackend"):
        status, _ = invited(api_client(cast.bob), "x@example.test", project=str(cast.llm.pk))

    assert status == 409
    assert not Invitation.objects.exists()


def test_one_address_is_not_invited_again_and_again(cast: Cast) -> None:
    bob, project = api_client(cast.bob), str(cast.llm.pk)
    for _ in range(INVITED_MAX):
        invited(bob, "eve@example.test", project=project)
        Invitation.objects.filter(withdrawn_at=None).update(withdrawn_at=timezone.now())

    body = {"email": "Eve@example.test", "role": "member", "project": project}
    refused = bob.post(HERE, body)
    keyed = bob.post(HERE, body, headers={"Idempotency-Key": "again"})

    assert problem(refused) == problem(keyed) == (429, "too_many_invitations")
    assert refused.json()["field"] == "email"
    assert 0 < int(refused["Retry-After"]) <= 600
    assert len(links_sent()) == Invitation.objects.count() == INVITED_MAX
    assert invited(bob, "other@example.test", project=project)[0] == 201
    entries = AuditEntry.objects.filter(action="tenants:invitation:refuse")
    assert [entry.facts["code"] for entry in entries] == ["too_many_invitations"] * 2


def test_a_link_says_of_few_user_names_whether_they_are_taken(cast: Cast) -> None:
    invited(api_client(cast.bob), "bob.second@example.test", project=str(cast.llm.pk))
    [link] = links_sent()

    names = ("dora", "frank", "ann", "alice", "mallory", "carol", "free")
    pages = [Client().post(link, {"username": name}).content.decode() for name in names]

    assert ["Another person is called" in page for page in pages].count(True) == NAMES_MAX
    assert "Too many user names were tried." in pages[NAMES_MAX]
    assert "withdrawn" in pages[-1]
    assert User.objects.count() == 7
    closed = AuditEntry.objects.get(action="tenants:invitation:withdraw")
    assert closed.facts["code"] == "too_many_names"


def probe(cast: Cast, names: Iterable[str], *, times: int = 1) -> Iterator[str]:
    """Yield the answer to each name, tried with links that Bob sends to addresses of his own."""
    bob = api_client(cast.bob)
    for number, name in enumerate(names):
        if number % times == 0:
            still_open = Invitation.objects.filter(accepted_at=None, withdrawn_at=None)
            still_open.update(withdrawn_at=timezone.now())
            address = f"bob.{name}.{number}@example.test"
            assert invited(bob, address, project=str(cast.llm.pk))[0] == 201
            link = links_sent()[-1]
        yield Client().post(link, {"username": name}).content.decode()


def test_links_of_one_inviter_together_tell_of_few_user_names_that_they_are_taken(
    cast: Cast,
) -> None:
    """The attack: further links to one's own addresses, five names each."""
    taken = [make_user(f"person{number}").username for number in range(TAKEN_MAX + 3)]

    pages = list(probe(cast, taken, times=NAMES_MAX - 1))
    free = next(probe(cast, ["free"]))

    assert ["Another person is called" in page for page in pages] == (
        [True] * TAKEN_MAX + [False] * (len(taken) - TAKEN_MAX)
    )
    made = User.objects.order_by("-pk")[0].username
    assert re.fullmatch(r"free-[0-9a-f]{8}", made)
    assert free.replace(made, "") == pages[-1].replace(User.objects.order_by("-pk")[1].username, "")


@pytest.mark.parametrize(
    ("name", "problem"),
    [("dora", "Another person is called"), ("eve/1", "Enter a valid username"), ("", "required")],
)
def test_a_user_name_that_is_refused_stands_in_the_form_beside_what_is_wrong(
    cast: Cast, name: str, problem: str
) -> None:
    invited(api_client(cast.bob), "eve@example.test", project=str(cast.llm.pk))
    [link] = links_sent()

    refused = Client().post(link, {"username": name})
    accepted = Client().post(link, {"username": "eve"})

    form = refused.context["form"]
    assert form["username"].value() == name
    assert problem in " ".join(form.errors["username"])
    assert refused.context["title"] == "Member of LLM"
    assert "The role is yours." in accepted.content.decode()


def test_where_two_accounts_have_the_address_the_named_one_gets_the_role(cast: Cast) -> None:
    second = make_user("mallory2")
    User.objects.filter(pk=second.pk).update(email=cast.mallory.email)
    invited(api_client(cast.bob), cast.mallory.email, project=str(cast.llm.pk))
    [link] = links_sent()

    looked = Client().get(link).content.decode()
    foreign = Client().post(link, {"username": "dora"}).content.decode()
    Client().post(link, {"username": "mallory2"})

    assert "User name of your account" in looked
    assert "Several accounts have this address." in foreign
    assert [m.project for m in second.memberships.all()] == [cast.llm]
    assert not cast.mallory.memberships.filter(project=cast.llm).exists()

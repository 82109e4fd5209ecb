"""Tests of user names: none is made that people take for another one."""

from collections.abc import Callable

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import DatabaseError, transaction

from tenants.domain.actors import system_actor
from tenants.domain.errors import InvalidInputError
from tenants.domain.identity.account_changes import ChangeKind
from tenants.domain.identity.refusals import UsernameTakenError
from tenants.domain.identity.roles import Role
from tenants.selectors.actors import actor_of_user
from tenants.services.identity.account_changes import ask_change
from tenants.services.identity.people import change_person, create_person, create_superuser
from tests.support.builders import AT, grant, make_user

HOST = system_actor("tests")
LOOK_ALIKES = (
    "Frank",
    "frаnk",  # noqa: RUF001 - A Cyrillic letter.
    "frank.",
    ".frank",
    "frank\u200b",
    "ｆrank",  # noqa: RUF001 - A letter of full width.
    "frank\n",
    "frank smith",
    "fränk",
)
PLAIN = ("f", "frank.b", "frank_2", "frank+gpu@example.test", "2-frank")


def make(username: str) -> User:
    return create_person(
        username=username, email="f@example.test", is_mail_set_up=True, actor=HOST, at=AT
    )


@pytest.mark.django_db
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_no_person_gets_a_name_that_looks_like_anothers(name: str) -> None:
    """The attack: a name that reads as the platform admin's in a list or a mail."""
    carol = make_user("carol")

    calls: list[Callable[[], object]] = [
        lambda: make(name),
        lambda: create_superuser(
            username=name, email="f@example.test", password="x" * 12, actor=HOST, at=AT
        ),
        lambda: change_person(user=carol, changes={"username": name}, actor=HOST, at=AT),
    ]
    for refused in calls:
        with pytest.raises(InvalidInputError) as refusal:
            refused()
        assert {(p.field, p.code) for p in refusal.value.problems} >= {("username", "not_plain")}

    assert [*User.objects.values_list("username", flat=True)] == ["carol"]


@pytest.mark.django_db
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_the_database_takes_no_such_name_either(name: str) -> None:
    carol = make_user("carol")

    with pytest.raises(DatabaseError, match="plain"), transaction.atomic():
        User.objects.create(username=name)
    with pytest.raises(DatabaseError, match="plain"), transaction.atomic():
        User.objects.filter(pk=carol.pk).update(username=name)


@pytest.mark.parametrize("wanted", ["Frank", "FRANK.B"])
@pytest.mark.usefixtures("committed_db")
def test_a_name_from_before_is_taken_in_lower_case_too_and_signs_in_as_it_is(
    superuser_url: str, wanted: str
) -> None:
    old = make_user(wanted.lower())
    trigger = "ALTER TABLE auth_user {} TRIGGER auth_user_name_is_plain"
    with psycopg.connect(superuser_url, autocommit=True) as connection:
        connection.execute("SET ROLE gpu_ledger_owner")
        connection.execute(trigger.format("DISABLE"))
        connection.execute("UPDATE auth_user SET username = %s", [wanted])
        connection.execute(trigger.format("ENABLE ALWAYS"))
    old.refresh_from_db()
    old.last_login = AT
    old.save()
    carol = make_user("carol")

    with pytest.raises(UsernameTakenError):
        make(wanted.lower())
    with pytest.raises(UsernameTakenError):
        change_person(user=carol, changes={"username": wanted.lower()}, actor=HOST, at=AT)
    with pytest.raises(DatabaseError, match="taken"):
        User.objects.filter(pk=carol.pk).update(username=wanted.lower())

    assert {*User.objects.values_list("username", flat=True)} == {wanted, "carol"}


@pytest.mark.django_db
@pytest.mark.parametrize("name", PLAIN)
def test_plain_names_are_taken(name: str) -> None:
    assert make(name).username == name


@pytest.mark.django_db
def test_a_look_alike_is_not_asked_for_either() -> None:
    frank, fiona = make_user("frank"), make_user("fiona")
    for admin in (frank, fiona):
        grant(admin, Role.PLATFORM_ADMIN)

    with pytest.raises(InvalidInputError) as refusal:
        ask_change(
            kind=ChangeKind.USERNAME,
            subject=fiona,
            value="Frank",
            is_mail_set_up=True,
            actor=actor_of_user(fiona),
            at=AT,
        )

    assert [(p.field, p.code) for p in refusal.value.problems] == [("value", "not_plain")]

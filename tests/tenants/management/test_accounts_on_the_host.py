"""Tests of the commands that make and change people on the host, each with its audit entry."""

import getpass
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from tenants.models import AuditEntry
from tenants.selectors.actors import actor_of_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
NEW = "a much longer phrase"


@shared_rows
def cast() -> Cast:
    return make_cast()


def run(*arguments: str) -> None:
    call_command(*arguments, stdout=StringIO(), stderr=StringIO())


def trail() -> list[tuple[str, str]]:
    return [(e.action, e.actor_id) for e in AuditEntry.objects.order_by("pk")]


def test_the_first_superuser_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", NEW)

    run("createsuperuser", "--noinput", "--username", "root", "--email", "root@example.test")

    root = User.objects.get()
    assert root.check_password(NEW)
    assert actor_of_user(root).may("tenants:membership:write")
    assert trail() == [("tenants:user:create", "manage.createsuperuser")]
    assert AuditEntry.objects.get().facts == {
        "username": "root",
        "email": "root@example.test",
        "is_staff": True,
        "is_superuser": True,
    }


def test_a_password_set_on_the_host_is_audited(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda *_: NEW)

    run("changepassword", "dora")

    assert User.objects.get(pk=cast.dora.pk).check_password(NEW)
    assert trail() == [("tenants:user:password", "manage.changepassword")]


def test_a_weak_password_is_not_set(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getpass", lambda *_: "short")

    with pytest.raises(CommandError, match="No password was set"):
        run("changepassword", "dora")

    assert User.objects.get(pk=cast.dora.pk).password == cast.dora.password
    assert not trail()


def test_a_weak_password_of_the_environment_makes_no_superuser(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cast.frank.is_active
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "password")

    with pytest.raises(CommandError, match="DJANGO_SUPERUSER_PASSWORD"):
        run("createsuperuser", "--noinput", "--username", "root", "--email", "root@example.test")

    assert not User.objects.filter(username="root").exists()
    assert not trail()


def test_the_host_makes_what_takes_two_people_over_the_web(cast: Cast) -> None:
    assert cast.frank.is_active
    run("person", "add", "eve", "eve@example.test")
    run("person", "staff", "eve")
    run("person", "role", "eve", "finance_admin")
    run("person", "email", "eve", "eve@example.org")

    eve = User.objects.get(username="eve")
    assert (eve.is_staff, eve.email, eve.has_usable_password()) == (True, "eve@example.org", False)
    assert [m.role for m in eve.memberships.all()] == ["finance_admin"]
    assert trail() == [
        ("tenants:user:create", "manage.person"),
        *(
            entry
            for action in ("user:update", "membership:create", "user:update")
            for entry in (
                (f"tenants:{action}", "manage.person"),
                ("tenants:user:end_credentials", "manage.person"),
            )
        ),
    ]


def test_the_host_renames_and_activates_who_is_guarded(cast: Cast) -> None:
    User.objects.filter(pk=cast.dora.pk).update(is_active=False)

    run("person", "activate", "dora")
    run("person", "rename", "dora", "dora.b")

    dora = User.objects.get(pk=cast.dora.pk)
    assert (dora.is_active, dora.username, dora.has_usable_password()) == (True, "dora.b", False)


def test_what_the_host_is_refused_is_named(cast: Cast) -> None:
    assert cast.frank.is_active

    with pytest.raises(CommandError, match='Another person is called "dora"'):
        run("person", "add", "dora", "dora@example.org")
    with pytest.raises(CommandError, match="email: "):
        run("person", "email", "dora", "nothing")
    with pytest.raises(CommandError, match="finance_admin, which stays apart"):
        run("person", "role", "dora", "platform_admin")

    assert not trail()

"""Every service that changes people, roles or tokens, committed: the database refuses it otherwise.

Tests that are rolled back never come to the check at the commit, see `_check_constraints`.
"""

from collections.abc import Callable
from datetime import timedelta
from inspect import getmembers, isfunction
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from tenants.domain.actors import system_actor
from tenants.domain.identity.account_changes import ChangeKind
from tenants.domain.identity.roles import Role
from tenants.selectors.actors import actor_of_user
from tenants.services.identity import account_changes, invitations, memberships, people, tokens
from tenants.services.identity import tokens as service_accounts
from tests.support.builders import AT, audit_entries, grant, make_user
from tests.support.cast import Cast, make_cast

HOST = system_actor("tests")
LATER = AT + timedelta(days=30)
MODULES = (account_changes, invitations, memberships, people, service_accounts, tokens)
READS_OR_CHECKS = {
    "name_problems",
    "open_invitation",
    "organization_id_of",
    "refuse_last_platform_admin",
    "require_open_scope",
    "scope_problems",
}
NOTES_OR_ASKS = {
    "decline_change",
    "note_link_refused",
    "note_password_link",
    "note_token_use",
    "note_user_saved",
    "withdraw_invitation",
}
"""They change no person, role or token."""
OF_OTHERS = {
    "end_credentials",
    "grant_platform_role",
    "revoke_tokens",
    "write_active",
    "write_person",
}
"""Called by those that are here."""


@pytest.mark.usefixtures("committed_db")
def test_every_change_of_people_roles_and_tokens_commits_with_its_entry() -> None:
    cast = make_cast()
    fiona = make_user("fiona")
    grant(fiona, Role.PLATFORM_ADMIN)
    called: set[str] = set()

    def changes(service: Callable[..., Any], **given: object) -> Any:  # noqa: ANN401 - Any service.
        called.add(service.__name__)
        before = audit_entries().count()
        made = service(**given)
        assert audit_entries().count() > before
        return made

    _change_people(changes)
    _change_a_person(changes)
    _change_roles(changes, cast)
    _change_accounts(changes, cast, fiona)
    _change_tokens(changes, cast)

    known = {
        name
        for module in MODULES
        for name, function in getmembers(module, isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert known - READS_OR_CHECKS - NOTES_OR_ASKS - OF_OTHERS == called


def _change_people(changes: Callable[..., Any]) -> None:
    by = {"actor": HOST, "at": AT}
    eve = changes(
        people.create_person, username="eve", email="eve@example.test", is_mail_set_up=True, **by
    )
    changes(
        people.create_superuser, username="root", email="r@example.test", password="x" * 12, **by
    )
    eve = changes(people.change_person, user=eve, changes={"email": "e@example.test"}, **by)
    eve = changes(people.set_password, user=eve, password="y" * 12, by="host", **by)
    changes(people.deactivate_user, user=eve, **by)
    changes(people.activate_user, user=eve, **by)


def _change_a_person(changes: Callable[..., Any]) -> None:
    """Every field, and every call that ends tokens, with a token that it ends."""
    by: dict[str, Any] = {"actor": HOST, "at": AT}
    wanted = {"username": "iris2", "first_name": "I", "last_name": "R", "email": "i@y.test"}
    iris = make_user("iris")
    calls: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (people.change_person, {"changes": {**wanted, "is_staff": True}}),
        (people.change_person, {"changes": {"is_staff": False}}),
        (people.set_password, {"password": "z" * 12, "by": "own"}),
        (people.deactivate_user, {}),
    ]
    for service, given in calls:
        tokens.issue_token(name="c", expires_at=LATER, user=iris, **by)
        iris = changes(service, user=iris, **given, **by)
    assert [*iris.api_tokens.values_list("revoked_at", flat=True)] == [AT] * 4
    with transaction.atomic():
        ivy = User.objects.create(username="ivy")
        people.note_user_saved(user=ivy, verb="create", **by)
        User.objects.filter(pk=ivy.pk).update(password="another")
        people.note_user_saved(user=ivy, verb="password", **by)


def _change_roles(changes: Callable[..., Any], cast: Cast) -> None:
    alice = actor_of_user(cast.alice)
    member = changes(
        memberships.grant_role,
        role=Role.MEMBER,
        user=cast.carol,
        project=cast.vision,
        actor=alice,
        at=AT,
    )
    changes(memberships.revoke_role, membership=member, actor=alice, at=AT)
    for username in ("", "gina"):
        offered = changes(
            invitations.invite,
            email=f"{username or 'carol'}@example.test",
            role=Role.MEMBER,
            project=cast.vision,
            is_mail_set_up=True,
            actor=alice,
            at=AT,
        )
        changes(
            invitations.accept_invitation,
            secret=offered.secret,
            username=username,
            actor=HOST,
            at=AT,
        )


def _change_accounts(changes: Callable[..., Any], cast: Cast, fiona: User) -> None:
    frank = actor_of_user(cast.frank)
    for kind, value in (
        (ChangeKind.STAFF, ""),
        (ChangeKind.ROLE, "auditor"),
        (ChangeKind.EMAIL, "gina@x.test"),
    ):
        change = changes(
            account_changes.ask_change,
            kind=kind,
            subject=User.objects.get(username="gina"),
            value=value,
            is_mail_set_up=True,
            actor=frank,
            at=AT,
        )
        changes(
            account_changes.approve_change,
            change_id=change.pk,
            actor=actor_of_user(fiona),
            at=AT,
        )
    change = changes(
        account_changes.ask_change,
        kind=ChangeKind.EMAIL,
        subject=User.objects.get(username="gina"),
        value="gina@y.test",
        is_mail_set_up=True,
        actor=frank,
        at=AT,
    )
    changes(
        account_changes.confirm_address,
        change_id=change.pk,
        email="gina@x.test",
        actor=actor_of_user(User.objects.get(username="gina")),
        at=AT,
    )


def _change_tokens(changes: Callable[..., Any], cast: Cast) -> None:
    alice = actor_of_user(cast.alice)
    issued = changes(
        tokens.issue_token, name="a", expires_at=LATER, user=cast.alice, actor=alice, at=AT
    )
    changes(tokens.revoke_token, token=issued.token, actor=alice, at=AT)
    account = changes(
        service_accounts.create_service_account,
        organization=cast.acme,
        slug="ci",
        name="CI",
        actor=alice,
        at=AT,
    )
    tokens.issue_token(name="b", expires_at=LATER, service_account=account, actor=alice, at=AT)
    changes(service_accounts.close_service_account, account=account, actor=alice, at=AT)

"""What ends credentials commits: the database asks for an audit entry of each change."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from tenants.domain.actors import Actor, system_actor
from tenants.domain.identity.account_changes import ChangeKind
from tenants.domain.identity.roles import Role
from tenants.models import ApiToken
from tenants.selectors.actors import actor_of_user
from tenants.services.identity.account_changes import approve_change, ask_change
from tenants.services.identity.people import activate_user, change_person, deactivate_user
from tenants.services.identity.tokens import issue_token
from tests.support.builders import AT, grant, make_user

HOST = system_actor("manage.person")


def platform_admin(name: str) -> Actor:
    user = make_user(name, is_staff=True)
    grant(user, Role.PLATFORM_ADMIN)
    return actor_of_user(user)


@pytest.mark.usefixtures("committed_db")
def test_a_role_an_address_and_activation_end_tokens_and_passwords_at_commit() -> None:
    frank, fiona, eve = platform_admin("frank"), platform_admin("fiona"), make_user("eve")
    at = AT
    own = actor_of_user(eve)
    issue_token(name="ci", expires_at=at + timedelta(days=1), user=eve, actor=own, at=at)

    change = ask_change(
        kind=ChangeKind.ROLE,
        subject=eve,
        value=Role.AUDITOR.value,
        is_mail_set_up=True,
        actor=frank,
        at=at,
    )
    approve_change(change_id=change.pk, actor=fiona, at=at)
    passwords = [User.objects.get(pk=eve.pk).password]
    change_person(user=eve, changes={"email": "eve@example.org"}, actor=HOST, at=at)
    passwords.append(User.objects.get(pk=eve.pk).password)
    deactivate_user(user=eve, actor=frank, at=at)
    activate_user(user=eve, actor=HOST, at=at)
    passwords.append(User.objects.get(pk=eve.pk).password)

    assert len(set(passwords)) == 3
    assert not User.objects.get(pk=eve.pk).has_usable_password()
    assert ApiToken.objects.get().revoked_at is not None

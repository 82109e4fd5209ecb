"""Tests of actors as the tables have them now."""

import pytest
from django.contrib.auth.models import AnonymousUser

from tenants.domain.actors import ActorKind, Grant
from tenants.domain.identity.roles import Role
from tenants.domain.refusals import UnauthenticatedError
from tenants.models import ServiceAccount
from tenants.selectors.actors import actor_of_service_account, actor_of_user
from tests.support.builders import AT, grant, make_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    return make_cast()


def test_an_actor_has_every_role_oldest_first(cast: Cast) -> None:
    grant(cast.bob, Role.MEMBER, project=cast.vision)

    bob = actor_of_user(cast.bob)

    assert (bob.kind, bob.id, bob.label, bob.scopes) == (
        ActorKind.PERSON,
        str(cast.bob.pk),
        "bob",
        None,
    )
    assert bob.grants == (
        Grant(Role.PROJECT_LEAD, project_id=cast.llm.pk),
        Grant(Role.MEMBER, project_id=cast.vision.pk),
    )


def test_a_person_without_a_role_may_nothing() -> None:
    assert actor_of_user(make_user("new")).grants == ()


def test_a_superuser_gives_the_first_role() -> None:
    root = actor_of_user(make_user("root", is_superuser=True))

    assert root.may("tenants:membership:write")
    assert not root.may("billing:invoice:write")


def test_a_deactivated_superuser_is_nobody() -> None:
    with pytest.raises(UnauthenticatedError):
        actor_of_user(make_user("root", is_superuser=True, is_active=False))


def test_nobody_signed_in_is_no_actor() -> None:
    with pytest.raises(UnauthenticatedError):
        actor_of_user(AnonymousUser())  # type: ignore[arg-type]


def test_a_service_account_has_its_own_roles(cast: Cast) -> None:
    account = ServiceAccount.objects.create(
        organization=cast.acme, slug="bot", name="Bot", created_at=AT
    )

    bot = actor_of_service_account(account)

    assert (bot.kind, bot.id, bot.label, bot.grants) == (
        ActorKind.SERVICE_ACCOUNT,
        str(account.pk),
        "bot",
        (),
    )


def test_an_actor_is_read_in_one_query(cast: Cast, django_assert_num_queries: object) -> None:
    with django_assert_num_queries(1):  # type: ignore[operator]
        actor_of_user(cast.bob)

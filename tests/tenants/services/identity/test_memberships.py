"""Tests of giving and taking roles."""

import pytest

from tenants.domain.actors import Actor, system_actor
from tenants.domain.errors import InvalidInputError
from tenants.domain.identity.roles import Role
from tenants.domain.refusals import (
    DutiesConflictError,
    HolderInactiveError,
    LastPlatformAdminError,
    OrganizationClosedError,
    ProjectClosedError,
    RoleHeldError,
    RoleNotYoursToGiveError,
)
from tenants.models import AuditEntry, Membership, ServiceAccount
from tenants.selectors.actors import actor_of_user
from tenants.services.identity.memberships import grant_role, revoke_role
from tenants.services.identity.people import activate_user, deactivate_user
from tests.support.builders import AT, grant, make_organization, make_project, make_user
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
SEED = system_actor("seed")


@shared_rows
def cast() -> Cast:
    return make_cast()


def make_account(cast: Cast) -> ServiceAccount:
    return ServiceAccount.objects.create(
        organization=cast.acme, slug="bot", name="Bot", created_at=AT
    )


def test_a_given_role_is_held_and_audited_in_its_organization(cast: Cast) -> None:
    alice = actor_of_user(cast.alice)

    membership = grant_role(
        role=Role.MEMBER, user=cast.mallory, project=cast.llm, actor=alice, at=AT
    )

    assert actor_of_user(cast.mallory).may(
        "tenants:project:read", organization_id=cast.acme.pk, project_id=cast.llm.pk
    )
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id, entry.organization_id, entry.actor_label) == (
        "tenants:membership:create",
        str(membership.pk),
        cast.acme.pk,
        "alice",
    )
    assert entry.facts == {
        "role": "member",
        "holder": "mallory",
        "project_id": str(cast.llm.pk),
    }


@pytest.mark.parametrize(
    ("giver", "role", "scope"),
    [
        ("alice", Role.MEMBER, "virus"),
        ("alice", Role.ORGANIZATION_ADMIN, "umbrella"),
        ("alice", Role.AUDITOR, None),
        ("bob", Role.ORGANIZATION_ADMIN, "acme"),
        ("bob", Role.MEMBER, "vision"),
        ("carol", Role.MEMBER, "llm"),
        ("dora", Role.MEMBER, "llm"),
        ("ann", Role.MEMBER, "llm"),
    ],
)
def test_a_role_beyond_ones_own_reach_is_not_given(
    cast: Cast, giver: str, role: Role, scope: str | None
) -> None:
    before = Membership.objects.count()
    actor = actor_of_user(getattr(cast, giver))
    scopes = {} if scope is None else {_kind(scope): getattr(cast, scope)}

    with pytest.raises(RoleNotYoursToGiveError):
        grant_role(role=role, user=make_user("newcomer"), **scopes, actor=actor, at=AT)

    assert Membership.objects.count() == before
    assert not AuditEntry.objects.exists()


def _kind(scope: str) -> str:
    return "organization" if scope in {"acme", "umbrella"} else "project"


def test_nobody_raises_themselves(cast: Cast) -> None:
    with pytest.raises(RoleNotYoursToGiveError):
        grant_role(role=Role.FINANCE_ADMIN, user=cast.frank, actor=actor_of_user(cast.frank), at=AT)

    assert cast.frank.memberships.count() == 1


@pytest.mark.parametrize(
    ("name", "role", "held"),
    [
        ("dora", Role.PLATFORM_ADMIN, "finance_admin"),
        ("ann", Role.FINANCE_ADMIN, "auditor"),
        ("ann", Role.PLATFORM_ADMIN, "auditor"),
    ],
)
def test_duties_that_watch_each_other_stay_apart(
    cast: Cast, name: str, role: Role, held: str
) -> None:
    with pytest.raises(DutiesConflictError) as refusal:
        grant_role(role=role, user=getattr(cast, name), actor=SEED, at=AT)

    assert refusal.value.facts == {"held": held}
    assert getattr(cast, name).memberships.count() == 1


def test_a_superuser_counts_as_platform_admin_where_duties_stay_apart() -> None:
    root = make_user("root", is_superuser=True)

    with pytest.raises(DutiesConflictError):
        grant_role(role=Role.FINANCE_ADMIN, user=root, actor=SEED, at=AT)


def test_holder_and_scope_must_fit_the_role_and_both_problems_are_reported(cast: Cast) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        grant_role(
            role=Role.PROJECT_LEAD,
            user=cast.bob,
            service_account=make_account(cast),
            organization=cast.acme,
            actor=SEED,
            at=AT,
        )

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("user", "one_holder"),
        ("organization", "scope_not_allowed"),
        ("project", "scope_required"),
    ]


def test_a_service_account_has_roles_in_its_own_organization_only(cast: Cast) -> None:
    account = make_account(cast)

    own = grant_role(
        role=Role.PROJECT_LEAD, service_account=account, project=cast.llm, actor=SEED, at=AT
    )
    refused = []
    for role, scope in ((Role.MEMBER, cast.virus), (Role.PROJECT_LEAD, cast.virus)):
        with pytest.raises(InvalidInputError) as refusal:
            grant_role(role=role, service_account=account, project=scope, actor=SEED, at=AT)
        refused += [p.code for p in refusal.value.problems]

    assert own.service_account == account
    assert refused == ["foreign_scope", "foreign_scope"]
    assert account.memberships.count() == 1


def test_a_role_is_held_once(cast: Cast) -> None:
    with pytest.raises(RoleHeldError):
        grant_role(role=Role.MEMBER, user=cast.carol, project=cast.llm, actor=SEED, at=AT)

    assert cast.carol.memberships.count() == 1


def test_nothing_is_given_in_what_is_closed() -> None:
    closed = make_organization("closed", state="closed")
    done = make_project(make_organization("open"), "done", state="closed")
    user = make_user()

    with pytest.raises(OrganizationClosedError):
        grant_role(role=Role.ORGANIZATION_ADMIN, user=user, organization=closed, actor=SEED, at=AT)
    with pytest.raises(ProjectClosedError):
        grant_role(role=Role.MEMBER, user=user, project=done, actor=SEED, at=AT)

    assert not Membership.objects.exists()


def test_nothing_is_given_to_who_may_not_act(cast: Cast) -> None:
    gone = make_user("gone", is_active=False)
    account = make_account(cast)
    account.state = "closed"
    account.save()

    for holder in ({"user": gone}, {"service_account": account}):
        with pytest.raises(HolderInactiveError):
            grant_role(role=Role.MEMBER, project=cast.llm, **holder, actor=SEED, at=AT)


def test_a_role_taken_away_is_gone_and_audited(cast: Cast) -> None:
    revoke_role(membership=cast.carol.memberships.get(), actor=actor_of_user(cast.bob), at=AT)

    assert not cast.carol.memberships.exists()
    assert AuditEntry.objects.get().action == "tenants:membership:delete"


def test_a_role_beyond_ones_reach_is_not_taken(cast: Cast) -> None:
    with pytest.raises(RoleNotYoursToGiveError):
        revoke_role(
            membership=cast.alice.memberships.get(), actor=actor_of_user(cast.mallory), at=AT
        )

    assert cast.alice.memberships.count() == 1


def test_anybody_gives_up_the_own_role(cast: Cast) -> None:
    revoke_role(membership=cast.carol.memberships.get(), actor=actor_of_user(cast.carol), at=AT)

    assert not cast.carol.memberships.exists()


def test_the_last_platform_admin_stays(cast: Cast) -> None:
    frank = actor_of_user(cast.frank)

    with pytest.raises(LastPlatformAdminError):
        revoke_role(membership=cast.frank.memberships.get(), actor=frank, at=AT)
    with pytest.raises(LastPlatformAdminError):
        deactivate_user(user=cast.frank, actor=frank, at=AT)

    cast.frank.refresh_from_db()
    assert cast.frank.is_active
    assert cast.frank.memberships.count() == 1


def test_a_deactivated_platform_admin_does_not_count_as_another(cast: Cast) -> None:
    grant(make_user("gone", is_active=False), Role.PLATFORM_ADMIN)

    with pytest.raises(LastPlatformAdminError):
        revoke_role(membership=cast.frank.memberships.get(), actor=SEED, at=AT)


def test_a_platform_admin_goes_when_another_stays(cast: Cast) -> None:
    grant(make_user("fiona"), Role.PLATFORM_ADMIN)

    revoke_role(membership=cast.frank.memberships.get(), actor=SEED, at=AT)

    assert not cast.frank.memberships.exists()


def test_a_deactivated_person_comes_back_without_the_old_tokens(cast: Cast) -> None:
    deactivate_user(user=cast.carol, actor=SEED, at=AT)
    deactivate_user(user=cast.carol, actor=SEED, at=AT)
    activate_user(user=cast.carol, actor=SEED, at=AT)

    cast.carol.refresh_from_db()
    assert cast.carol.is_active
    assert [e.action for e in AuditEntry.objects.order_by("id")] == [
        "tenants:user:deactivate",
        "tenants:user:activate",
        "tenants:user:end_credentials",
    ]


def test_giving_a_role_costs_the_same_statements_however_many_people_there_are(
    cast: Cast, django_assert_max_num_queries: object
) -> None:
    for number in range(30):
        grant(make_user(f"member{number}"), Role.MEMBER, project=cast.llm)
    newcomer = make_user("newcomer")
    actor: Actor = SEED

    with django_assert_max_num_queries(12):  # type: ignore[operator]
        grant_role(role=Role.MEMBER, user=newcomer, project=cast.llm, actor=actor, at=AT)

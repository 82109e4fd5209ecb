"""Tests of who may hand out which role."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.actors import Actor, ActorKind, Grant, system_actor
from tenants.domain.identity.granting import CONFLICTING_ROLES, conflicting_role, may_give
from tenants.domain.identity.roles import Role

ACME, UMBRELLA = UUID(int=1), UUID(int=2)
LLM = UUID(int=3)
BOB = (ActorKind.PERSON, "2")


def person(*grants: Grant) -> Actor:
    return Actor(kind=ActorKind.PERSON, id="1", label="alice", grants=grants)


def test_an_organization_admin_gives_roles_in_the_own_organization_only() -> None:
    alice = person(Grant(Role.ORGANIZATION_ADMIN, organization_id=ACME))

    own = may_give(alice, Role.MEMBER, organization_id=ACME, project_id=LLM, holder=BOB)
    other = may_give(alice, Role.MEMBER, organization_id=UMBRELLA, project_id=None, holder=BOB)

    assert (own, other) == (True, False)


@pytest.mark.parametrize("role", [Role.PLATFORM_ADMIN, Role.FINANCE_ADMIN, Role.AUDITOR])
def test_platform_roles_are_given_by_platform_admins_only(role: Role) -> None:
    alice = person(Grant(Role.ORGANIZATION_ADMIN, organization_id=ACME))
    frank = person(Grant(Role.PLATFORM_ADMIN))
    dora = person(Grant(Role.FINANCE_ADMIN))

    answers = [
        may_give(actor, role, organization_id=None, project_id=None, holder=BOB)
        for actor in (alice, frank, dora)
    ]

    assert answers == [False, True, False]


def test_a_project_lead_gives_roles_of_the_own_project_but_not_of_its_organization() -> None:
    lead = person(Grant(Role.PROJECT_LEAD, project_id=LLM))

    in_project = may_give(lead, Role.MEMBER, organization_id=ACME, project_id=LLM, holder=BOB)
    above = may_give(
        lead, Role.ORGANIZATION_ADMIN, organization_id=ACME, project_id=None, holder=BOB
    )

    assert (in_project, above) == (True, False)


@given(st.sampled_from(list(Role)))
def test_nobody_gives_a_role_to_themselves(role: Role) -> None:
    frank = person(Grant(Role.PLATFORM_ADMIN))
    himself = (ActorKind.PERSON, "1")

    assert not may_give(frank, role, organization_id=ACME, project_id=LLM, holder=himself)


@given(st.sampled_from(list(Role)))
def test_the_service_itself_gives_every_role(role: Role) -> None:
    assert may_give(system_actor("seed"), role, organization_id=None, project_id=None, holder=BOB)


@given(st.sampled_from(list(Role)), st.frozensets(st.sampled_from(list(Role))))
def test_a_conflicting_role_is_always_one_that_is_held_and_clashes(
    role: Role, held: frozenset[Role]
) -> None:
    clash = conflicting_role(role, held)

    clashing = {other for other in held if frozenset({role, other}) in CONFLICTING_ROLES}
    assert (clash is None) == (not clashing)
    assert clash is None or clash in clashing


def test_who_audits_neither_runs_the_platform_nor_prices_it() -> None:
    assert conflicting_role(Role.AUDITOR, frozenset({Role.FINANCE_ADMIN})) is Role.FINANCE_ADMIN
    assert conflicting_role(Role.PLATFORM_ADMIN, frozenset({Role.AUDITOR})) is Role.AUDITOR
    assert conflicting_role(Role.AUDITOR, frozenset({Role.MEMBER})) is None

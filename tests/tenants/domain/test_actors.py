"""Tests of what an actor may do."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.actors import Actor, ActorKind, Grant, limit_scopes, system_actor
from tenants.domain.identifiers import uuid7
from tenants.domain.identity.roles import (
    ALL_CAPABILITIES,
    CAPABILITIES,
    ROLE_SCOPES,
    Role,
    RoleScope,
)

ACME, UMBRELLA, LLM, VISION = (UUID(int=n) for n in range(1, 5))
capabilities = st.sampled_from(sorted(ALL_CAPABILITIES))


def actor(*grants: Grant, scopes: frozenset[str] | None = None) -> Actor:
    return Actor(kind=ActorKind.PERSON, id="1", label="x", grants=grants, scopes=scopes)


@given(capabilities)
def test_an_actor_without_a_role_may_nothing(capability: str) -> None:
    assert not actor().may(capability, organization_id=ACME, project_id=LLM)


@given(capabilities)
def test_the_service_itself_may_everything(capability: str) -> None:
    assert system_actor("metering.tick").may(capability)


@given(st.sampled_from(list(Role)), capabilities)
def test_a_role_of_one_organization_never_reaches_another(role: Role, capability: str) -> None:
    held = actor(Grant(role, organization_id=ACME))

    assert not held.may(capability, organization_id=UMBRELLA, project_id=VISION)
    assert not held.may(capability)


@given(st.sampled_from(list(Role)), capabilities)
def test_a_role_of_one_project_never_reaches_its_sibling_or_its_organization(
    role: Role, capability: str
) -> None:
    held = actor(Grant(role, project_id=LLM))

    assert not held.may(capability, organization_id=ACME, project_id=VISION)
    assert not held.may(capability, organization_id=ACME)


@given(st.sampled_from(list(Role)), st.frozensets(capabilities), capabilities)
def test_scopes_only_ever_take_away(role: Role, scopes: frozenset[str], capability: str) -> None:
    limited = actor(Grant(role), scopes=limit_scopes(scopes))

    expected = capability in CAPABILITIES[role] and capability in scopes
    assert limited.may(capability) is expected


def test_money_and_machines_are_in_different_hands() -> None:
    platform, finance = CAPABILITIES[Role.PLATFORM_ADMIN], CAPABILITIES[Role.FINANCE_ADMIN]

    assert not {c for c in platform if c.startswith("billing:") and c.endswith(":write")}
    assert {c for c in finance if c.endswith(":write")} == {
        "billing:price:write",
        "billing:period:write",
        "billing:invoice:write",
        "billing:journal:write",
        "billing:payment:write",
        "billing:dispute:write",
        "billing:export:write",
        "quotas:suspension:write",  # Of a tenant in arrears; it starts and ends no pod.
    }


def test_an_auditor_writes_nothing() -> None:
    assert {c.rsplit(":", 1)[1] for c in CAPABILITIES[Role.AUDITOR]} == {"read"}


def test_every_role_reaches_exactly_one_scope() -> None:
    assert set(ROLE_SCOPES) == set(Role)
    assert set(ROLE_SCOPES.values()) == set(RoleScope)


@given(st.integers(0, 2**48 - 2), st.integers(0, 2**12 - 1), st.integers(0, 2**62 - 1))
def test_identifiers_made_later_sort_later(unix_ms: int, random_a: int, random_b: int) -> None:
    made = uuid7(unix_ms=unix_ms, random_a=random_a, random_b=random_b)

    assert made.version == 7
    assert made < uuid7(unix_ms=unix_ms + 1, random_a=0, random_b=0)

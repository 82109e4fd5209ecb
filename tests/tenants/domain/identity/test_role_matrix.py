"""Each role and each capability: the whole table, and how tokens narrow it."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.actors import Actor, ActorKind, Grant
from tenants.domain.identity.roles import (
    ALL_CAPABILITIES,
    CAPABILITIES,
    ROLE_SCOPES,
    Role,
    RoleScope,
)

ROLES = (
    Role.MEMBER,
    Role.PROJECT_LEAD,
    Role.ORGANIZATION_ADMIN,
    Role.AUDITOR,
    Role.FINANCE_ADMIN,
    Role.PLATFORM_ADMIN,
)
MATRIX = {
    # Member, lead, organization; auditor, finance, platform.
    "billing:charge:read": "-yy yyy",
    "billing:dispute:write": "--y -y-",
    "billing:export:read": "--- yyy",
    "billing:export:write": "--- -y-",
    "billing:own_charge:read": "y-- ---",
    "billing:invoice:read": "--y yyy",
    "billing:invoice:write": "--- -y-",
    "billing:journal:read": "--- yyy",
    "billing:journal:write": "--- -y-",
    "billing:payment:write": "--- -y-",
    "billing:period:read": "--- yyy",
    "billing:period:write": "--- -y-",
    "billing:price:read": "-yy yyy",
    "billing:price:write": "--- -y-",
    "metering:capacity:read": "--- yyy",
    "metering:catalogue:read": "yyy yyy",
    "metering:catalogue:write": "--- --y",
    "metering:correction:write": "--- --y",
    "metering:credit:decide": "--- -y-",
    "metering:credit:read": "-yy yyy",
    "metering:device_event:read": "--- yyy",
    "metering:device_event:write": "--- --y",
    "metering:exception:read": "-yy yyy",
    "metering:exception:write": "--- --y",
    "metering:health:read": "--- yyy",
    "metering:usage:read": "yyy yyy",
    "metering:waste:dismiss": "-yy --y",
    "metering:waste:read": "yyy yyy",
    "metering:window:read": "--- yyy",
    "metering:window:write": "--- --y",
    "quotas:enforcement:read": "--- yyy",
    "quotas:enforcement:write": "--- --y",
    "quotas:isolation:read": "yyy yyy",
    "quotas:isolation:write": "--y --y",
    "quotas:limit:read": "yyy yyy",
    "quotas:limit:write": "--y --y",
    "quotas:preemption:plan": "--y --y",
    "quotas:preemption:read": "--y yyy",
    "quotas:preemption:write": "--- --y",
    "quotas:request:decide": "--y --y",
    "quotas:request:fund": "--- -y-",
    "quotas:request:read": "yyy yyy",
    "quotas:request:review": "-yy --y",
    "quotas:request:submit": "-yy ---",
    "quotas:reservation:read": "yyy yyy",
    "quotas:suspension:read": "--y yyy",
    "quotas:suspension:write": "--- -yy",
    "tenants:audit:read": "--y yyy",
    "tenants:cluster:read": "--- yyy",
    "tenants:cluster:write": "--- --y",
    "tenants:membership:read": "-yy yyy",
    "tenants:membership:write": "-yy --y",
    "tenants:namespace:read": "-yy yyy",
    "tenants:namespace:write": "--- --y",
    "tenants:notification:read": "--y yyy",
    "tenants:notification:write": "--y --y",
    "tenants:organization:read": "yyy yyy",
    "tenants:organization:write": "--- --y",
    "tenants:project:read": "yyy yyy",
    "tenants:project:write": "--y --y",
    "tenants:token:write": "-yy --y",
}
ACME, UMBRELLA, LLM, VISION, VIRUS = (UUID(int=n) for n in range(1, 6))
PLACES = (
    (None, None),
    (ACME, None),
    (ACME, LLM),
    (ACME, VISION),
    (UMBRELLA, None),
    (UMBRELLA, VIRUS),
)
"""The platform, and organizations with and without a project."""
capabilities = st.sampled_from(sorted(ALL_CAPABILITIES))
scopes = st.none() | st.frozensets(capabilities, max_size=12)


def grant_of(role: Role) -> Grant:
    """Return a role where it usually is: over the platform, Acme, or Acme's LLM."""
    scope = ROLE_SCOPES[role]
    return Grant(
        role,
        organization_id=ACME if scope is RoleScope.ORGANIZATION else None,
        project_id=LLM if scope is RoleScope.PROJECT else None,
    )


def reaches(role: Role, place: tuple[UUID | None, UUID | None]) -> bool:
    """Say it again, the naive way: by listing the places."""
    return (
        place
        in {
            RoleScope.PLATFORM: PLACES,
            RoleScope.ORGANIZATION: ((ACME, None), (ACME, LLM), (ACME, VISION)),
            RoleScope.PROJECT: ((ACME, LLM),),
        }[ROLE_SCOPES[role]]
    )


def test_the_table_names_every_capability_and_every_role() -> None:
    assert set(MATRIX) == ALL_CAPABILITIES
    assert set(ROLES) == set(Role)
    assert {len(row) for row in MATRIX.values()} == {7}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_exactly_what_the_table_says(role: Role) -> None:
    column = ROLES.index(role)
    expected = {c for c, row in MATRIX.items() if row.replace(" ", "")[column] == "y"}

    assert expected == CAPABILITIES[role]


@pytest.mark.parametrize("kind", [ActorKind.PERSON, ActorKind.SERVICE_ACCOUNT])
@given(
    roles=st.lists(st.sampled_from(ROLES), max_size=3),
    scopes=scopes,
    capability=capabilities,
    place=st.sampled_from(PLACES),
)
def test_a_token_narrows_every_capability_and_widens_none(
    kind: ActorKind,
    roles: list[Role],
    scopes: frozenset[str] | None,
    capability: str,
    place: tuple[UUID | None, UUID | None],
) -> None:
    grants = tuple(grant_of(role) for role in roles)
    whole = Actor(kind=kind, id="1", label="x", grants=grants)
    token = Actor(kind=kind, id="1", label="x", grants=grants, scopes=scopes)
    organization, project = place
    may = {
        actor: actor.may(capability, organization_id=organization, project_id=project)
        for actor in (whole, token)
    }

    assert may[whole] == any(capability in CAPABILITIES[r] and reaches(r, place) for r in roles)
    assert may[token] == (may[whole] and (scopes is None or capability in scopes))


@pytest.mark.parametrize("role", ROLES)
def test_a_token_for_one_capability_gives_that_one_and_no_other(role: Role) -> None:
    for wanted in ALL_CAPABILITIES:
        token = Actor(
            kind=ActorKind.PERSON,
            id="1",
            label="x",
            grants=(grant_of(role),),
            scopes=frozenset({wanted}),
        )
        given_to = {c for c in ALL_CAPABILITIES if token.grants_for(c)}

        assert given_to == ({wanted} & CAPABILITIES[role])


def test_who_writes_money_runs_no_cluster_and_the_other_way_round() -> None:
    money = {c for c in ALL_CAPABILITIES if c.startswith("billing:") and c.endswith(":write")}
    money.add("metering:credit:decide")  # What is given back is money too.
    money.add("quotas:request:fund")  # Nothing is granted by it but the cost.
    both = {"quotas:suspension:write"}  # For a broken tenant, and for one that does not pay.
    rest = {c for c in ALL_CAPABILITIES - both if c not in money and not c.endswith(":read")}

    assert not CAPABILITIES[Role.PLATFORM_ADMIN] & money
    assert not CAPABILITIES[Role.FINANCE_ADMIN] & rest
    assert not {c for c in CAPABILITIES[Role.AUDITOR] if not c.endswith(":read")}
    assert not {c for c in CAPABILITIES[Role.MEMBER] if not c.endswith(":read")}

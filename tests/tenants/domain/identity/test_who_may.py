"""A refusal names the roles that would do."""

import pytest

from tenants.domain.identity.granting import forbidden, who_may
from tenants.domain.identity.roles import ALL_CAPABILITIES, RoleScope

PLATFORM = frozenset({RoleScope.PLATFORM})


@pytest.mark.parametrize(
    ("capability", "reported"),
    [
        ("quotas:preemption:write", "a platform admin"),
        ("quotas:suspension:write", "a platform admin or a finance admin"),
        ("quotas:limit:write", "a platform admin or an administrator of the organization"),
        (
            "quotas:request:review",
            (
                "a platform admin, an administrator of the organization or a project lead of the "
                "project"
            ),
        ),
    ],
)
def test_every_role_that_carries_a_capability_is_named(capability: str, reported: str) -> None:
    assert who_may(capability) == reported


def test_for_an_object_of_the_platform_only_its_roles_are_named() -> None:
    assert who_may("quotas:limit:write", reach=PLATFORM) == "a platform admin"
    assert who_may("quotas:request:submit", reach=PLATFORM) == "nobody"


@pytest.mark.parametrize("capability", sorted(ALL_CAPABILITIES))
def test_somebody_may_do_everything(capability: str) -> None:
    refusal = forbidden(capability)

    assert refusal.advice == f"This may be done by {who_may(capability)}."
    assert who_may(capability) != "nobody"
    assert refusal.facts == {"capability": capability}

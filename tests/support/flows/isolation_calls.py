"""Every call of isolation: who does it, how, and the entries it leaves."""

from collections.abc import Callable
from typing import Any

from quotas.models import IsolationPolicy
from quotas.services import isolation
from tenants.domain.actors import Actor
from tenants.selectors.actors import actor_of_user
from tests.support.flows.estate import Estate

Does = Callable[[Estate, Any], object]


def frank(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.frank)


ISOLATION_DEEDS: dict[str, tuple[Callable[[Estate], Actor], Does, list[tuple[str, str | None]]]] = {
    "quotas.isolation.set_isolation_policy": (
        frank,
        lambda e, who: isolation.set_isolation_policy(
            organization=e.cast.acme, modes=["whole"], **who
        ),
        [("quotas:isolation:set", "acme")],
    ),
    "quotas.isolation.change_isolation_policy": (
        frank,
        lambda e, who: isolation.change_isolation_policy(
            policy_id=IsolationPolicy.objects.get(project=e.cast.llm).pk,
            changes={"modes": ["mig"]},
            **who,
        ),
        [("quotas:isolation:change", "acme")],
    ),
    "quotas.isolation.remove_isolation_policy": (
        frank,
        lambda e, who: isolation.remove_isolation_policy(
            policy_id=IsolationPolicy.objects.get(project=e.cast.virus).pk, **who
        ),
        [("quotas:isolation:remove", "umbrella")],
    ),
}

"""Every call of preemption: who does it, how, and the entries it leaves."""

from datetime import timedelta
from typing import Any

from metering.domain.catalogue.units import GPUSize
from quotas.models import PreemptionMode
from quotas.services.preemption import planning as preemption_planning
from quotas.services.preemption import protected_windows
from quotas.services.preemption import running as preemption_running
from quotas.services.preemption import sweep as preemption_sweep
from tenants.domain.actors import Actor
from tenants.selectors.actors import actor_of_user
from tests.support.builders import AT
from tests.support.flows.estate import Estate

SOON = AT + timedelta(days=40)


def frank(estate: Estate) -> Actor:
    return actor_of_user(estate.cast.frank)


PREEMPTION_DEEDS: dict[str, Any] = {
    "quotas.preemption.planning.plan_preemption": (
        frank,
        lambda e, who: preemption_planning.plan_preemption(
            organization=e.cast.acme,
            yields=[preemption_planning.YieldDemand(GPUSize.SMALL, 1)],
            **who,
        ),
        [("quotas:preemption:plan", "acme")],
    ),
    "quotas.preemption.running.execute_plan": (
        frank,
        lambda e, who: preemption_running.execute_plan(
            plan_id=e.places["own"]["preemption-plans"],
            grace=timedelta(minutes=5),
            burst_classes=(),
            **who,
        ),
        [("quotas:enforcement:plan", "acme"), ("quotas:preemption:execute", "acme")],
    ),
    "quotas.preemption.running.stop_plan": (
        frank,
        lambda e, who: preemption_running.stop_plan(
            plan_id=e.places["other"]["preemption-plans"], **who
        ),
        [("quotas:preemption:stopped", "umbrella")],
    ),
    "quotas.preemption.sweep.set_policy": (
        frank,
        lambda e, who: preemption_sweep.set_policy(
            organization=e.cast.acme, mode=PreemptionMode.OFF, **who
        ),
        [("quotas:preemption_policy:set", "acme")],
    ),
    "quotas.preemption.protected_windows.open_window": (
        frank,
        lambda e, who: protected_windows.open_window(
            organization=e.cast.acme,
            valid_from=SOON,
            valid_until=SOON + timedelta(hours=1),
            reason="Release.",
            **who,
        ),
        [("quotas:protected_window:open", "acme")],
    ),
    "quotas.preemption.protected_windows.close_window": (
        frank,
        lambda e, who: protected_windows.close_window(
            window_id=e.places["other"]["protected-windows"], **who
        ),
        [("quotas:protected_window:close", "umbrella")],
    ),
}

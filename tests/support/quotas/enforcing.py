"""What tests of enforcement share: planning, applying and reading one namespace's target."""

from datetime import datetime, timedelta

from quotas.models import EnforcementTarget
from quotas.services.enforcement.applying import apply_target
from quotas.services.enforcement.targets import refresh_targets
from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from tenants.domain.actors import system_actor
from tests.support.builders import AT

SYSTEM = system_actor("tests")
GPU, MIG = "requests.nvidia.com/gpu", "requests.nvidia.com/mig-1g.10gb"
LATER = AT + timedelta(minutes=1)


def target_of(namespace: str = "llm") -> EnforcementTarget:
    return EnforcementTarget.objects.get(namespace=namespace)


def refresh(at: datetime = AT) -> int:
    return refresh_targets(at=at, actor=SYSTEM, burst_classes=["gpu-ledger-burst"])


def apply(namespace: str = "llm", *, at: datetime = AT) -> str:
    return apply_target(
        target_id=target_of(namespace).pk,
        enforcer=SimulatedQuotaEnforcer(),
        actor=SYSTEM,
        at=at,
    )

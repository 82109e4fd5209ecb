"""Ticks derive what is due and bring it into line, with Celery and without."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from quotas import tasks
from quotas.adapters import quota_enforcer
from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.models import EnforcementTarget
from quotas.selectors.enforcement.targets import unread_target_ids
from quotas.selectors.gauges import unapplied_targets
from quotas.services.enforcement import applying as services
from quotas.services.lending import loans
from quotas.services.preemption import stepping as preemption_stepping
from quotas.tasks import enforcement, fair_use, preemption
from simulator.adapters.quota_enforcer import SimulatedQuotaEnforcer
from tenants.domain.errors import SourceUnavailableError
from tenants.models import Cluster
from tenants.selectors.clock import crashes_by_event
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import make_limit

GPU = "requests.nvidia.com/gpu"
NOBODY = UUID(int=0)


def crash(**_: object) -> None:
    raise ZeroDivisionError


@pytest.fixture(autouse=True)
def ground(cast: Cast) -> None:
    cluster = make_cluster()
    bind(cluster, "llm", cast.llm)
    bind(cluster, "vision", cast.vision)
    make_cluster("ampere")
    make_limit(cast.acme, cast.llm, units=8)
    make_limit(cast.acme, cast.vision, units=4)


def test_a_tick_without_celery_makes_every_limit_true() -> None:
    before = tasks.tick(AT)
    after = tasks.tick(AT)

    cluster = SimulatedQuotaEnforcer.cluster("hopper")
    assert (before, after) == (2, 0)
    assert {name: quota.hard[GPU] for name, quota in cluster.quotas.items()} == {
        "llm": 8,
        "vision": 4,
    }
    assert set(EnforcementTarget.objects.values_list("state", flat=True)) == {"applied"}


def test_a_tick_looks_again_at_what_was_applied_and_repairs_it() -> None:
    tasks.tick(AT)
    cluster = SimulatedQuotaEnforcer.cluster("hopper")
    cluster.delete_by_hand("llm")

    looked = tasks.tick(AT + timedelta(minutes=10))

    assert looked == 2
    assert cluster.quotas["llm"].hard[GPU] == 8


def test_a_target_that_crashes_does_not_keep_the_others_from_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(SimulatedQuotaEnforcer):
        def apply(self, endpoint, desired):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            if desired.namespace == "llm":
                raise ZeroDivisionError
            return super().apply(endpoint, desired)

    monkeypatch.setattr(enforcement, "quota_enforcer", lambda _: Broken())

    assert tasks.tick(AT) == 2

    states = dict(EnforcementTarget.objects.values_list("namespace", "state"))
    assert states == {"llm": "pending", "vision": "applied"}
    assert crashes_by_event() == {"quotas.enforcement.crashed": 1}


def test_a_crash_is_reported_by_the_name_of_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_use, "due_loan_ids", lambda **_: [NOBODY])
    monkeypatch.setattr(preemption, "due_plan_ids", lambda **_: [NOBODY, NOBODY])
    monkeypatch.setattr(loans, "end_loan", crash)
    monkeypatch.setattr(preemption_stepping, "step_plan", crash)

    with capture_logs() as lines:
        assert tasks.share_fairly(AT) == 0
        assert tasks.preempt(AT) == 0

    reported = [(line["event"], line["key"]) for line in lines if line["log_level"] == "error"]
    assert reported == [
        ("quotas.loans.crashed", str(NOBODY)),
        ("quotas.preemption.crashed", str(NOBODY)),
        ("quotas.preemption.crashed", str(NOBODY)),
    ]
    assert crashes_by_event() == {"quotas.loans.crashed": 1, "quotas.preemption.crashed": 2}


def test_a_wake_up_does_the_same_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcement, "TARGETS_PER_BATCH", 1)
    applied: list[list[int]] = []
    apply = services.apply_targets

    def note(*, target_ids: list[int], **given: Any) -> int:  # noqa: ANN401 - Passed on.
        applied.append(target_ids)
        return apply(target_ids=target_ids, **given)

    monkeypatch.setattr(services, "apply_targets", note)

    tasks.tick_enforcement()

    targets = EnforcementTarget.objects.order_by("pk").values_list("pk", flat=True)
    assert applied == [[pk] for pk in targets]
    assert unapplied_targets() == {"ampere": 0, "hopper": 0}


def test_a_target_whose_reading_crashes_waits_behind_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken(SimulatedQuotaEnforcer):
        def read(self, endpoint, namespace):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            if namespace == "llm":
                raise ZeroDivisionError
            return super().read(endpoint, namespace)

    tasks.tick(AT)
    monkeypatch.setattr(enforcement, "quota_enforcer", lambda _: Broken())
    later = AT + timedelta(minutes=10)

    assert tasks.tick(later) == 2

    assert unread_target_ids(at=later, limit=9) == []
    assert crashes_by_event() == {"quotas.enforcement.crashed": 1}


def test_a_slice_full_of_a_silent_cluster_still_repairs_drift_in_another(
    monkeypatch: pytest.MonkeyPatch, cast: Cast
) -> None:
    """A batch in a silent cluster takes longer than a slice, which ends after its first step."""

    class Silent(SimulatedQuotaEnforcer):
        def apply(self, endpoint, desired):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            if endpoint.slug == "ampere":
                raise SourceUnavailableError("It did not answer in time.", reason="timeout")
            return super().apply(endpoint, desired)

    tasks.tick(AT)
    hopper = SimulatedQuotaEnforcer.cluster("hopper")
    hopper.delete_by_hand("llm")
    ampere = Cluster.objects.get(slug="ampere")
    make_limit(cast.umbrella, cast.virus, units=8)
    for number in range(enforcement.TARGETS_PER_BATCH + 1):
        bind(ampere, f"team-{number}", cast.virus)
    monkeypatch.setattr(enforcement, "quota_enforcer", lambda _: Silent())

    next(tasks.tick_enforcement.run())

    tried = EnforcementTarget.objects.filter(namespace__startswith="team-", attempt__gt=0)
    assert tried.count() == enforcement.TARGETS_PER_BATCH
    assert hopper.quotas["llm"].hard[GPU] == 8
    assert EnforcementTarget.objects.get(namespace="llm").drifts_repaired == 1


def test_a_wake_up_raises_what_waited_for_a_lowered_share_at_once(cast: Cast) -> None:
    make_limit(cast.acme, units=12)
    cluster = SimulatedQuotaEnforcer.cluster("hopper")
    tasks.tick_enforcement()
    cast.llm.quota_limits.update(limit_units=2)
    cast.vision.quota_limits.update(limit_units=10)

    tasks.tick_enforcement()

    assert {name: quota.hard[GPU] for name, quota in cluster.quotas.items()} == {
        "llm": 2,
        "vision": 10,
    }


def test_the_setting_names_the_enforcer_and_one_is_kept_per_process() -> None:
    setting = {
        "BACKEND": "quotas.adapters.kubernetes.KubernetesQuotaEnforcer",
        "OPTIONS": {"read_tries": 2},
    }

    assert isinstance(quota_enforcer(setting), KubernetesQuotaEnforcer)
    assert quota_enforcer(setting) is quota_enforcer(dict(setting))

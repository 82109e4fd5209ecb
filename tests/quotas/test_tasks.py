"""Ticks derive what is due and bring it into line, with Celery and without."""

from datetime import timedelta
from uuid import UUID

import pytest
from kombu.exceptions import OperationalError
from structlog.testing import capture_logs

from quotas import tasks
from quotas.adapters import quota_enforcer
from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.adapters.simulated import SimulatedQuotaEnforcer
from quotas.models import EnforcementTarget
from quotas.selectors.gauges import unapplied_targets
from quotas.services import loans, preemption_stepping
from quotas.tasks import enforcement, fair_use, preemption
from tenants.selectors.crashes import crashes_by_event
from tests.builders import AT, bind, make_cluster
from tests.cast import Cast
from tests.quotas.builders import make_limit

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


def test_a_crash_is_told_by_the_name_of_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_use, "due_loan_ids", lambda **_: [NOBODY])
    monkeypatch.setattr(preemption, "due_plan_ids", lambda **_: [NOBODY, NOBODY])
    monkeypatch.setattr(loans, "end_loan", crash)
    monkeypatch.setattr(preemption_stepping, "step_plan", crash)

    with capture_logs() as lines:
        assert tasks.share_fairly(AT) == 0
        assert tasks.preempt(AT) == 0

    told = [(line["event"], line["key"]) for line in lines if line["log_level"] == "error"]
    assert told == [
        ("quotas.loans.crashed", str(NOBODY)),
        ("quotas.preemption.crashed", str(NOBODY)),
        ("quotas.preemption.crashed", str(NOBODY)),
    ]
    assert crashes_by_event() == {"quotas.loans.crashed": 1, "quotas.preemption.crashed": 2}


def test_the_tasks_do_the_same_some_targets_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[int]] = []
    monkeypatch.setattr(tasks.apply_targets, "delay", sent.append)

    tasks.tick_enforcement()
    for batch in sent:
        tasks.apply_targets(batch)
        tasks.check_targets(batch)

    told = [pk for batch in sent for pk in batch]
    assert sorted(told) == sorted(EnforcementTarget.objects.values_list("pk", flat=True))
    assert unapplied_targets() == {"ampere": 0, "hopper": 0}


def test_without_a_broker_the_work_stays_due(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: list[int]) -> None:
        raise OperationalError

    monkeypatch.setattr(tasks.apply_targets, "delay", refuse)

    tasks.tick_enforcement()

    assert unapplied_targets() == {"ampere": 0, "hopper": 2}


def test_messages_carry_some_targets_each(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[int]] = []
    monkeypatch.setattr(enforcement, "TARGETS_PER_TASK", 1)
    monkeypatch.setattr(tasks.apply_targets, "delay", sent.append)

    tasks.tick_enforcement()

    assert [len(batch) for batch in sent] == [1, 1]


def test_a_hint_brings_one_organization_into_line_and_leaves_the_others(cast: Cast) -> None:
    bind(make_cluster("blackwell"), "virus", cast.virus)
    make_limit(cast.umbrella, units=2)

    tasks.enforce_organization(str(cast.acme.pk))

    live = {
        name: quota.hard[GPU]
        for name, quota in SimulatedQuotaEnforcer.cluster("hopper").quotas.items()
    }
    assert live == {"llm": 8, "vision": 4}
    assert SimulatedQuotaEnforcer.cluster("blackwell").quotas == {}
    assert not EnforcementTarget.objects.filter(namespace="virus").exists()


def test_a_hint_raises_what_waited_for_a_lowered_share_in_the_same_breath(cast: Cast) -> None:
    make_limit(cast.acme, units=12)
    cluster = SimulatedQuotaEnforcer.cluster("hopper")
    tasks.enforce_organization(str(cast.acme.pk))
    cast.llm.quota_limits.update(limit_units=2)
    cast.vision.quota_limits.update(limit_units=10)

    tasks.enforce_organization(str(cast.acme.pk))

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

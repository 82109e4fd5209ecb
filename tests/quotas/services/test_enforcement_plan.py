"""What every governed namespace should say, derived from limits, bindings and live use."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from quotas.models import EnforcementTarget
from quotas.selectors.enforcement import due_target_ids
from quotas.services.target_plans import refresh_targets
from tenants.models import Cluster
from tests.builders import AT, bind, make_cluster
from tests.cast import Cast
from tests.quotas.builders import audit_actions, hold, make_limit, see_size
from tests.quotas.services.enforcing import GPU, MIG, SYSTEM, apply, refresh, target_of


def test_a_limit_becomes_the_desired_quota_of_its_namespace(hopper: Cluster, cast: Cast) -> None:
    assert refresh() == 1

    target = target_of()
    assert (target.cluster, target.project) == (hopper, cast.llm)
    assert target.desired_hard == {GPU: 8, MIG: 0}
    assert (target.desired_generation, target.applied_generation) == (1, 0)
    assert (target.state, target.not_before) == ("pending", AT)
    assert audit_actions() == ["quotas:enforcement:plan"]


@pytest.mark.usefixtures("hopper")
def test_planning_again_changes_nothing() -> None:
    refresh()

    assert refresh() == 0

    assert target_of().desired_generation == 1
    assert audit_actions() == ["quotas:enforcement:plan"]


@pytest.mark.usefixtures("hopper")
def test_a_changed_limit_raises_the_generation_and_makes_the_target_due(cast: Cast) -> None:
    refresh()
    apply()
    assert due_target_ids(at=AT, limit=9) == []
    cast.llm.quota_limits.update(limit_units=3)

    assert refresh() == 1

    target = target_of()
    assert (target.desired_hard[GPU], target.desired_generation) == (3, 2)
    assert (target.applied_generation, target.ceiling_hard[GPU]) == (1, 8)
    assert due_target_ids(at=AT, limit=9) == [target.pk]


def test_a_namespace_without_any_limit_above_it_is_left_alone(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "virus", cast.virus)

    refresh()

    assert [t.namespace for t in EnforcementTarget.objects.all()] == ["llm"]


def test_a_binding_counts_only_while_it_is_valid(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "old", cast.llm, end_at=AT)
    bind(hopper, "new", cast.llm, begin_at=AT + timedelta(hours=1))

    refresh()

    assert [t.namespace for t in EnforcementTarget.objects.all()] == ["llm"]


def test_a_namespace_whose_binding_ends_falls_to_zero(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "old", cast.llm, end_at=AT + timedelta(hours=1))
    refresh()

    refresh_targets(at=AT + timedelta(hours=1), actor=SYSTEM)

    assert target_of("old").desired_hard == {GPU: 0, MIG: 0}


@pytest.mark.parametrize("what", ["project", "organization"])
def test_what_is_closed_may_hold_nothing(hopper: Cluster, cast: Cast, what: str) -> None:
    refresh()
    closed = cast.llm if what == "project" else cast.acme
    closed.state = "closed"
    closed.save()

    refresh()

    assert target_of().cluster == hopper
    assert target_of().desired_hard == {GPU: 0, MIG: 0}


def test_a_closed_or_unreachable_cluster_is_not_planned(hopper: Cluster, cast: Cast) -> None:
    hopper.state = "closed"
    hopper.save()
    bind(make_cluster("blind", kubernetes_url="", credential_reference=""), "llm", cast.llm)

    assert refresh() == 0

    assert not EnforcementTarget.objects.exists()


def test_two_namespaces_share_the_limit_by_use(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "llm-serve", cast.llm)
    hold(hopper, "llm-serve", units=3)
    hold(hopper, "llm-serve", units=9, end_at=AT)

    refresh()

    assert target_of("llm").desired_hard[GPU] == 1
    assert target_of("llm-serve").desired_hard[GPU] == 7


def test_a_share_is_raised_only_after_the_lowered_one_was_seen_to_arrive(
    hopper: Cluster, cast: Cast
) -> None:
    bind(hopper, "llm-serve", cast.llm)
    refresh()
    apply("llm")
    apply("llm-serve")
    hold(hopper, "llm", units=4)

    refresh()
    first = (target_of("llm").desired_hard[GPU], target_of("llm-serve").desired_hard[GPU])
    apply("llm-serve")
    refresh()
    second = (target_of("llm").desired_hard[GPU], target_of("llm-serve").desired_hard[GPU])

    assert first == (4, 1)
    assert second == (7, 1)


def test_nvidia_gpu_counts_to_the_size_that_metering_saw(hopper: Cluster) -> None:
    see_size(hopper, "nvidia.com/gpu", "small")

    refresh()

    assert target_of().desired_hard == {GPU: 0, MIG: 0}


def test_the_number_of_statements_does_not_grow_with_namespaces(
    hopper: Cluster, cast: Cast
) -> None:
    def statements() -> int:
        EnforcementTarget.objects.all().delete()
        with CaptureQueriesContext(connection) as captured:
            refresh()
        return len(captured)

    few = statements()
    for number in range(40):
        bind(hopper, f"extra-{number}", cast.vision if number % 2 else cast.virus)
        hold(hopper, f"extra-{number}")
    make_limit(cast.acme, cast.vision)
    make_limit(cast.umbrella, units=20)

    assert statements() == few
    assert EnforcementTarget.objects.count() == 41

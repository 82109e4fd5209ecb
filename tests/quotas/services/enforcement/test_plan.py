"""What every governed namespace should say, derived from limits, bindings and live use."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.models import CapacityRecord
from quotas.models import EnforcementTarget, QuotaSuspension
from quotas.selectors.enforcement.targets import due_target_ids
from quotas.services.enforcement.targets import refresh_targets
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import audit_actions, hold, make_grant, make_limit, see_size
from tests.support.quotas.enforcing import GPU, MIG, SYSTEM, apply, refresh, target_of


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


def test_a_grant_counts_while_it_is_valid(hopper: Cluster, cast: Cast) -> None:
    assert hopper.slug == "hopper"
    limit = cast.llm.quota_limits.get()
    end = AT + timedelta(hours=2)
    make_grant(limit, units=4, begin_at=AT + timedelta(hours=1), end_at=end)

    reported = []
    for at in (AT, AT + timedelta(hours=1), end):
        refresh(at)
        reported.append(target_of().desired_hard[GPU])

    assert reported == [8, 12, 8]


def test_a_suspended_project_is_shut_natively_and_opened_when_it_is_resumed(
    hopper: Cluster, cast: Cast
) -> None:
    assert hopper.slug == "hopper"
    refresh()
    suspension = QuotaSuspension.objects.create(
        organization=cast.acme, project=cast.llm, reason="arrears", begin_at=AT
    )
    refresh()
    shut = target_of()
    QuotaSuspension.objects.filter(pk=suspension.pk).update(end_at=AT)

    refresh()

    assert (shut.desired_hard, shut.is_held) == ({GPU: 0, MIG: 0}, True)
    assert (target_of().desired_hard[GPU], target_of().is_held) == (8, False)


def test_a_limit_of_another_cluster_binds_nothing_here(hopper: Cluster, cast: Cast) -> None:
    other = make_cluster("ampere")
    bind(other, "llm-ampere", cast.llm)
    make_limit(cast.acme, cast.llm, units=2, cluster=other)

    refresh()

    assert target_of("llm-ampere").desired_hard[GPU] == 2
    assert (target_of("llm").desired_hard[GPU], target_of("llm").cluster) == (6, hopper)


def test_a_limit_of_a_model_binds_where_metering_saw_that_model_only(
    hopper: Cluster, cast: Cast
) -> None:
    make_limit(cast.acme, cast.llm, units=3, model_group="H100")
    refresh()
    uncertain = target_of().desired_hard[GPU]
    seen = see_size(hopper, "nvidia.com/gpu", "large")
    CapacityRecord.objects.filter(pk=seen.pk).update(price_group="H100/whole")

    refresh()

    assert (uncertain, target_of().desired_hard[GPU]) == (8, 3)


def test_preemptible_pods_use_burst_units_and_no_nominal_ones(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "llm-serve", cast.llm)
    cast.llm.quota_limits.update(burst_units=4)
    hold(hopper, "llm-serve", units=3, priority_class="gpu-ledger-burst")

    refresh()

    reported = {
        name: (target_of(name).desired_hard[GPU], target_of(name).desired_burst[GPU])
        for name in ("llm", "llm-serve")
    }
    assert reported == {"llm": (4, 0), "llm-serve": (4, 4)}


def test_claims_are_named_on_both_routes_and_left_out_for_kueue(
    hopper: Cluster,
) -> None:
    hopper.offered_resources = ["claim/gpu.example.com", "nvidia.com/gpu"]
    hopper.save()
    refresh()
    named = set(target_of().desired_hard)
    hopper.quota_target = "kueue"
    hopper.save()

    refresh()

    assert named == {
        GPU,
        "gpu.example.com.deviceclass.resource.k8s.io/devices",
        "requests.deviceclass.resource.kubernetes.io/gpu.example.com",
    }
    assert set(target_of().desired_hard) == {GPU}


def test_the_device_classes_of_nvidia_are_capped_at_the_limit_like_whole_gpus(
    hopper: Cluster,
) -> None:
    hopper.offered_resources = ["claim/gpu.nvidia.com", "nvidia.com/gpu"]
    hopper.save()

    refresh()

    hard = target_of().desired_hard
    assert hard["gpu.nvidia.com.deviceclass.resource.k8s.io/devices"] == hard[GPU] > 0


def test_planning_one_organization_leaves_the_others_alone(hopper: Cluster, cast: Cast) -> None:
    bind(hopper, "virus", cast.virus)
    make_limit(cast.umbrella, units=5)

    refresh_targets(at=AT, actor=SYSTEM, organization_id=cast.acme.pk)

    assert [t.namespace for t in EnforcementTarget.objects.all()] == ["llm"]


def test_a_namespace_that_moved_is_planned_by_its_new_organization_only(
    hopper: Cluster, cast: Cast
) -> None:
    bind(hopper, "moving", cast.llm, end_at=AT)
    refresh(AT - timedelta(hours=1))
    bind(hopper, "moving", cast.virus, begin_at=AT)
    make_limit(cast.umbrella, units=5)

    refresh_targets(at=AT, actor=SYSTEM, organization_id=cast.acme.pk)
    untouched = target_of("moving").desired_hard[GPU]
    refresh_targets(at=AT, actor=SYSTEM, organization_id=cast.umbrella.pk)

    assert untouched == 4
    assert (target_of("moving").desired_hard[GPU], target_of("moving").project) == (5, cast.virus)


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

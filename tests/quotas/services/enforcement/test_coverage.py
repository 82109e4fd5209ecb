"""A limit is not divided where the cluster itself shows that admission counts every pod."""

from datetime import datetime, timedelta

import pytest

from metering.models import ClusterWatch, DeviceClass
from quotas.domain.admission.webhook_configuration import Registration, configurations
from quotas.models import AdmissionCoverage, EnforcementTarget
from quotas.services.enforcement.coverage import refresh_coverage
from simulator.adapters.quota_enforcer import ReceivingCluster, SimulatedQuotaEnforcer
from tenants.models import AuditEntry, Cluster
from tests.support.builders import AT, bind, make_cluster, make_project
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit
from tests.support.quotas.enforcing import GPU, SYSTEM, apply, refresh
from tests.support.shared_rows import shared_rows

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
SETTLED = AT + 2 * MINUTE


@shared_rows
def hopper(cast: Cast) -> Cluster:
    """Return a watched cluster that enforces; a project with nine units has two namespaces."""
    cluster = make_cluster(
        "hopper", is_watched=True, admission_mode="enforce", admission_on_failure="deny"
    )
    bind(cluster, "a", cast.llm)
    bind(cluster, "b", cast.llm)
    make_limit(cast.acme, cast.llm, units=9)
    ClusterWatch.objects.create(cluster=cluster, healthy_at=AT + 10 * MINUTE)
    return cluster


def install(live: ReceivingCluster, cluster: Cluster, **changes: object) -> None:
    """Put into the cluster what is printed for it."""
    given = {"service": "gpu-ledger/admission", "offered": tuple(cluster.offered_resources)}
    registration = Registration(
        cluster=cluster.slug,
        authority_pem="",
        **{**given, **changes},  # type: ignore[arg-type]
    )
    live.webhooks = tuple(configurations(registration)[1]["webhooks"])


def read(at: datetime) -> int:
    return refresh_coverage(enforcer=SimulatedQuotaEnforcer(), actor=SYSTEM, at=at)


def planned(at: datetime) -> list[int]:
    """Read the webhooks and plan; return what each namespace should say."""
    read(at)
    refresh(at)
    rows = EnforcementTarget.objects.order_by("cluster__slug", "namespace")
    return [target.desired_hard[GPU] for target in rows]


def coverage() -> AdmissionCoverage:
    return AdmissionCoverage.objects.get()


def test_each_namespace_gets_the_whole_limit_once_the_webhooks_have_settled(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper)

    assert planned(AT) == [5, 4]
    assert planned(SETTLED - SECOND) == [5, 4]
    assert planned(SETTLED) == [9, 9]


def test_the_setting_alone_divides_until_the_cluster_has_the_webhooks(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    assert planned(AT) == [5, 4]
    assert planned(SETTLED) == [5, 4]
    assert coverage().problem == "The cluster has no webhook pods.gpu-ledger.io."
    install(live, hopper, failure_policy="Ignore")
    assert planned(SETTLED + MINUTE) == [5, 4]
    assert coverage().problem == "pods.gpu-ledger.io: failurePolicy is not Fail."


@pytest.mark.parametrize(
    "changes",
    [
        {"admission_on_failure": "allow"},
        {"admission_mode": "warn"},
        {"is_watched": False},
        {"quota_target": "kueue"},
        {"offered_resources": ["nvidia.com/gpu", "example.com/new"]},
    ],
    ids=["ignore", "warn", "unwatched", "kueue", "offered"],
)
def test_another_setting_divides_in_the_same_run(
    live: ReceivingCluster, hopper: Cluster, changes: dict[str, object]
) -> None:
    install(live, hopper)
    planned(AT)
    assert planned(SETTLED) == [9, 9]

    Cluster.objects.update(**changes)

    assert planned(SETTLED + SECOND) == [5, 4]
    assert coverage().covered_at is None


def test_a_device_class_that_the_webhooks_do_not_ask_about_divides(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper)
    planned(AT)
    name = "example.com/h100"
    DeviceClass.objects.create(cluster=hopper, name="h100", extended_resource=name, created_at=AT)

    assert planned(SETTLED) == [5, 4]
    install(live, hopper, offered=(*hopper.offered_resources, name))
    planned(SETTLED)
    assert planned(SETTLED + 2 * MINUTE) == [9, 9]


def test_what_is_set_back_begins_anew(live: ReceivingCluster, hopper: Cluster) -> None:
    install(live, hopper)
    planned(AT)
    Cluster.objects.update(admission_on_failure="allow")
    planned(SETTLED)
    Cluster.objects.update(admission_on_failure="deny")

    assert planned(SETTLED + MINUTE) == [5, 4]
    assert coverage().covered_at == SETTLED + MINUTE
    assert planned(SETTLED + 3 * MINUTE) == [9, 9]


def test_webhooks_that_somebody_deletes_divide_the_limit_again_lower_first(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper)
    planned(AT)
    assert planned(SETTLED) == [9, 9]
    assert [apply("a", at=SETTLED), apply("b", at=SETTLED)] == ["applied", "applied"]
    hold(hopper, "a", units=5)
    live.webhooks = ()

    lowered = planned(SETTLED + SECOND)

    assert lowered == [8, 1]
    assert [apply("a", at=SETTLED + SECOND), apply("b", at=SETTLED + SECOND)] == ["applied"] * 2
    assert {name: quota.hard[GPU] for name, quota in live.quotas.items()} == {"a": 8, "b": 1}


def test_a_namespace_that_is_not_asked_about_keeps_its_projects_limit_divided(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper, own_namespaces=("b",))
    planned(AT)
    assert planned(SETTLED) == [5, 4]
    install(live, hopper, bound=("a",))
    planned(SETTLED)
    assert planned(SETTLED + 2 * MINUTE) == [5, 4]
    assert list(coverage().included or ()) == ["a"]


def test_a_namespace_that_is_asked_about_later_settles_first(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper, own_namespaces=("b",))
    planned(AT)
    planned(SETTLED)
    install(live, hopper)

    assert planned(SETTLED + SECOND) == [5, 4]
    assert planned(SETTLED + 2 * MINUTE + SECOND) == [9, 9]
    install(live, hopper, own_namespaces=("c",))
    assert planned(SETTLED + 2 * MINUTE + 2 * SECOND) == [9, 9]


def test_a_namespace_that_is_named_later_settles_alone(
    live: ReceivingCluster, hopper: Cluster, cast: Cast
) -> None:
    speech = make_project(cast.acme, "speech")
    bind(hopper, "c", speech)
    make_limit(cast.acme, speech, units=4)
    install(live, hopper, bound=("a", "b"))
    planned(AT)
    assert planned(SETTLED) == [9, 9, 4]

    bind(hopper, "d", speech)
    install(live, hopper, bound=("a", "b", "c", "d"))

    # No pod of the other project that fits is refused meanwhile.
    assert planned(SETTLED + SECOND) == [9, 9, 2, 0]
    assert planned(SETTLED + 2 * MINUTE) == [9, 9, 2, 0]
    assert planned(SETTLED + 2 * MINUTE + SECOND) == [9, 9, 4, 4]
    AdmissionCoverage.objects.update(included=["a", "b"])
    assert planned(SETTLED + 3 * MINUTE)[:2] == [9, 9]


def test_a_namespace_that_is_named_later_waits_for_the_watch(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper, bound=("a",))
    planned(AT)
    install(live, hopper, bound=("a", "b"))
    planned(SETTLED)
    ClusterWatch.objects.update(healthy_at=SETTLED + 59 * SECOND)

    assert planned(SETTLED + 2 * MINUTE) == [5, 4]
    ClusterWatch.objects.update(healthy_at=SETTLED + MINUTE)
    assert planned(SETTLED + 2 * MINUTE) == [9, 9]


def test_a_second_cluster_that_does_not_count_divides_over_both(
    live: ReceivingCluster, hopper: Cluster, cast: Cast
) -> None:
    bind(make_cluster("ampere"), "c", cast.llm)
    install(live, hopper)
    planned(AT)

    assert planned(SETTLED) == [3, 3, 3]


def test_pods_from_before_must_have_been_observed(live: ReceivingCluster, hopper: Cluster) -> None:
    ClusterWatch.objects.update(healthy_at=AT + 59 * SECOND)
    install(live, hopper)
    planned(AT)

    assert planned(SETTLED) == [5, 4]
    ClusterWatch.objects.update(healthy_at=AT + 60 * SECOND)
    assert planned(SETTLED) == [9, 9]


def test_a_cluster_that_cannot_be_read_keeps_its_last_reading_for_five_minutes(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    install(live, hopper)
    planned(AT)
    planned(SETTLED)
    live.failure = "timeout"

    assert planned(SETTLED + 5 * MINUTE) == [9, 9]
    assert planned(SETTLED + 5 * MINUTE + SECOND) == [5, 4]
    live.failure = ""
    assert planned(SETTLED + 6 * MINUTE) == [9, 9]


def test_a_late_reading_is_not_written_over_a_later_one(
    live: ReceivingCluster, hopper: Cluster
) -> None:
    read(SETTLED)
    install(live, hopper)

    assert read(AT) == 0

    assert (coverage().covered_at, coverage().checked_at) == (None, SETTLED)


def test_each_change_is_in_the_audit_trail_once(live: ReceivingCluster, hopper: Cluster) -> None:
    install(live, hopper)

    changes = [read(AT), read(AT + MINUTE)]
    live.webhooks = ()
    changes += [read(SETTLED), read(SETTLED + MINUTE)]

    assert changes == [1, 0, 1, 0]
    entries = AuditEntry.objects.filter(action="quotas:coverage:change").order_by("pk")
    assert [(entry.facts["is_covered"], entry.facts["problem"]) for entry in entries] == [
        (True, ""),
        (False, "The cluster has no webhook pods.gpu-ledger.io."),
    ]
    assert {entry.object_id for entry in entries} == {str(hopper.pk)}

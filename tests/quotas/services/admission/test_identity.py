"""Whose a question is: a uid stands for one pod, a namespace for one tenant that is open."""

import pytest

from quotas.domain.admission.values import VerdictCode
from quotas.models import AdmissionRefusal, QuotaLimit, Reservation
from tenants.models import Cluster, Organization, Project
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import (
    LATER,
    ask,
    counted,
    demand,
    drifted,
    end,
    see,
    start,
    state,
    sweep,
)
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows


@shared_rows
def cluster(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    bind(cluster, "vision", cast.vision)
    return cluster


@pytest.mark.parametrize(
    ("namespace", "asked"),
    [
        ("vision", [demand(2)]),
        ("llm", [demand(3)]),
        ("llm", [demand(2, size="small")]),
        ("llm", [demand(2, resource="other")]),
        ("llm", [demand(2), demand(1, resource="other")]),
    ],
    ids=["namespace", "units", "size", "resource", "more"],
)
def test_a_uid_with_another_body_is_another_pod(
    cluster: Cluster, limit: QuotaLimit, namespace: str, asked: list[object]
) -> None:
    first = ask(cluster, "llm", "pod-1", demand(2)).code

    other = ask(cluster, namespace, "pod-1", *asked)  # type: ignore[arg-type] # Demands.
    again = ask(cluster, "llm", "pod-1", demand(2)).code

    assert (first, other.code, again) == ("allowed", "replayed_otherwise", "allowed_before")
    assert not other.is_allowed
    assert counted(limit) == (0, 2, 0, 0)
    assert Reservation.objects.count() == 1
    assert AdmissionRefusal.objects.get().code == "replayed_otherwise"


@pytest.mark.parametrize("how", ["ended", "gone"])
def test_the_uid_of_a_pod_that_is_over_lets_nobody_in(
    cluster: Cluster, limit: QuotaLimit, how: str
) -> None:
    ask(cluster)
    if how == "ended":
        end(start(cluster))
    else:
        see(cluster, gone_at=LATER)
    sweep()

    assert ask(cluster, at=LATER).code is VerdictCode.REPLAYED_OTHERWISE
    assert (state(), counted(limit)) == (("released", how), (0, 0, 0, 0))


def test_a_pod_that_expired_may_ask_anew_with_another_body(
    cluster: Cluster, limit: QuotaLimit
) -> None:
    ask(cluster)

    assert ask(cluster, "vision", "pod-1", demand(3), at=LATER).code is VerdictCode.ALLOWED
    assert counted(limit) == (0, 3, 0, 0)
    assert drifted() == []


@pytest.mark.parametrize("table", ["organization", "project"])
@pytest.mark.parametrize("unbound", ["deny", "allow"])
def test_a_closed_tenant_starts_nothing_whatever_nobodys_namespaces_may(
    cast: Cast, cluster: Cluster, table: str, unbound: str
) -> None:
    limit = make_limit(cast.acme, units=8)
    tenants: dict[str, Organization | Project] = {"organization": cast.acme, "project": cast.llm}
    closed = tenants[table]
    closed.state = "closed"
    closed.save()

    verdict = ask(cluster, unbound=unbound)
    start(cluster)
    found = sweep()

    assert (verdict.code, verdict.is_allowed) == (VerdictCode.CLOSED, False)
    assert AdmissionRefusal.objects.values_list("code", "organization").get() == (
        "closed",
        cast.acme.pk,
    )
    assert found.found == 1
    assert counted(limit) == (1, 0, 0, 0)


def test_a_closed_tenant_counts_where_the_cluster_only_warns(
    cast: Cast, cluster: Cluster, limit: QuotaLimit
) -> None:
    Cluster.objects.update(admission_mode="warn")
    cast.llm.state = "closed"
    cast.llm.save()

    assert ask(cluster).code is VerdictCode.CLOSED
    assert counted(limit) == (0, 1, 0, 0)


def test_an_unlimited_limit_bounds_preemptible_pods_all_the_same(
    cast: Cast, cluster: Cluster
) -> None:
    limit = make_limit(cast.acme, units=None)
    none = ask(cluster, uid="b-0", is_burst=True)
    QuotaLimit.objects.update(burst_units=1)

    codes = [ask(cluster, uid=f"b-{n}", is_burst=True).code for n in (1, 2)]
    nominal = ask(cluster, "llm", "n-1", demand(100)).code

    assert none.blocker is not None
    assert (none.code, none.blocker.limit_units, none.blocker.is_burst) == (
        "limit_reached",
        0,
        True,
    )
    assert (codes, nominal) == (["allowed", "limit_reached"], "allowed")
    assert counted(limit) == (0, 100, 0, 1)


def test_what_no_pod_has_is_refused_without_asking_the_ledger(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=None)

    codes = [ask(cluster, "llm", "pod-1", demand(units)).code for units in (1_000_001, 2**63)]
    largest = ask(cluster, "llm", "pod-1", demand(1_000_000)).code

    assert codes == [VerdictCode.DEMAND_TOO_LARGE] * 2
    assert largest is VerdictCode.ALLOWED
    assert counted(limit) == (0, 1_000_000, 0, 0)
    assert not AdmissionRefusal.objects.exists()


def test_a_device_class_of_any_name_is_counted(cast: Cast, cluster: Cluster) -> None:
    limit = make_limit(cast.acme, units=1)

    assert ask(cluster, "llm", "c", demand(resource=f"claim/{'x' * 253}")).is_allowed
    assert counted(limit) == (0, 1, 0, 0)

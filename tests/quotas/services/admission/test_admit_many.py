"""Pods of one batch: each that is admitted is admitted as if it had asked by itself."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quotas.domain.admission.values import PodQuestion
from quotas.models import (
    AdmissionRefusal,
    GrantReason,
    QuotaCounter,
    QuotaLimit,
    QuotaSuspension,
    Reservation,
)
from quotas.services.admission.admission import question_json
from quotas.services.limits.changes import open_counter
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import TTL_SECONDS, counted, demand, drifted, question
from tests.support.quotas.builders import make_grant, make_limit


@pytest.fixture
def cluster(cast: Cast) -> Cluster:
    return placed(cast)


def placed(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm, default_owner=cast.carol)
    bind(cluster, "vision", cast.vision)
    bind(cluster, "virus", cast.virus)
    return cluster


def limited(cast: Cast, units: int = 100) -> list[QuotaLimit]:
    """Return limits of everybody, with counters that are open."""
    limits = [
        make_limit(cast.acme, units=units),
        make_limit(cast.acme, cast.llm, units=units),
        make_limit(cast.umbrella, units=units),
    ]
    with transaction.atomic():
        for limit in limits:
            open_counter(limit=limit, at=AT)
    return limits


def reported(pod: PodQuestion) -> str:
    return question_json(pod, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")


def verdicts_of(questions: str) -> list[dict[str, Any] | None]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT quotas_admit(%s::jsonb)", [questions])
        verdicts: list[dict[str, Any] | None] = json.loads(cursor.fetchone()[0])
    return verdicts


def alone(pod: PodQuestion) -> dict[str, Any]:
    """Return the verdict on a pod that asks by itself."""
    (verdict,) = verdicts_of(f"[{reported(pod)}]")
    assert verdict is not None
    return verdict


def batch(*pods: PodQuestion) -> list[dict[str, Any] | None]:
    """Return the verdicts on pods of one batch, never of a single pod."""
    every = (*pods, replace(pods[0], namespace="fill", pod_uid="fill"))
    return verdicts_of(f"[{','.join(map(reported, every))}]")[: len(pods)]


def together(*pods: PodQuestion) -> list[int]:
    """Return the numbers of those that a batch admits, from 1."""
    if not pods:
        assert verdicts_of("[]") == []
        return []
    return [number for number, verdict in enumerate(batch(*pods), start=1) if verdict is not None]


def test_pods_that_fit_are_let_in_and_counted_at_every_level(cast: Cast, cluster: Cluster) -> None:
    acme, llm, umbrella = limited(cast)

    numbers = together(
        question(cluster, "llm", "a", demand(2), owner="bob", controller="Job/train"),
        question(cluster, "virus", "b", demand(3)),
        question(cluster, "vision", "c"),
        question(cluster, "llm", "d", demand(1), demand(4, resource="example.com/gpu")),
    )

    assert numbers == [1, 2, 3, 4]
    assert [counted(one)[1] for one in (acme, llm, umbrella)] == [8, 7, 3]
    assert drifted() == []
    row = Reservation.objects.get(pod_uid="a")
    assert (row.organization, row.project, row.namespace) == (cast.acme, cast.llm, "llm")
    assert (row.owner, row.username, row.controller) == ("bob", "bob", "Job/train")
    assert (row.size, row.units, row.model_groups) == ("large", 2, ["H100"])
    assert (row.state, row.origin, row.release_reason) == ("reserved", "admission", "")
    assert (row.admitted_at, row.expires_at) == (AT, AT + timedelta(seconds=TTL_SECONDS))
    assert Reservation.objects.filter(pod_uid="d").count() == 2
    assert Reservation.objects.get(pod_uid="d", resource="nvidia.com/gpu").username == "carol"


def test_a_pod_has_to_fit_beside_those_asked_before_it(cast: Cast, cluster: Cluster) -> None:
    acme, _, _ = limited(cast, units=10)

    numbers = together(*[question(cluster, "llm", f"pod-{n}", demand(3)) for n in range(4)])

    assert numbers == [1, 2, 3]
    assert counted(acme) == (0, 9, 0, 0)


def test_a_warning_counts_the_pods_asked_before(cast: Cast, cluster: Cluster) -> None:
    limited(cast, units=10)

    verdicts = batch(*[question(cluster, "llm", f"pod-{n}", demand(3)) for n in range(4)])

    assert [len((one or {}).get("nearly_full", ())) for one in verdicts] == [0, 0, 2, 0]
    nearly = (verdicts[2] or {})["nearly_full"]
    assert [(one["scope"], one["reserved_units"], one["asked_units"]) for one in nearly] == [
        ("organization", 6, 3),
        ("project", 6, 3),
    ]


def test_burst_and_nominal_pods_have_room_of_their_own(cast: Cast, cluster: Cluster) -> None:
    acme, llm, _ = limited(cast, units=3)
    QuotaLimit.objects.update(burst_units=3)

    numbers = together(
        question(cluster, "llm", "n", demand(2)),
        question(cluster, "llm", "b", demand(2), is_burst=True),
        question(cluster, "llm", "c", demand(1), is_burst=True),
    )

    assert numbers == [1, 2, 3]
    assert (counted(acme), counted(llm)) == ((0, 2, 0, 3), (0, 2, 0, 3))


def test_grants_in_force_make_room(cast: Cast, cluster: Cluster) -> None:
    acme, llm, _ = limited(cast, units=2)
    for limit in (acme, llm):
        make_grant(limit, 8, reason=GrantReason.MANUAL)

    assert together(question(cluster, "llm", "pod-1", demand(8))) == [1]
    assert counted(llm) == (0, 8, 0, 0)


def close_project(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - One of several.
    type(cast.llm).objects.filter(pk=cast.llm.pk).update(state="closed")


def close_organization(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    type(cast.umbrella).objects.filter(pk=cast.acme.pk).update(state="closed")


def suspend(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaSuspension.objects.create(
        organization=cast.acme, project=cast.llm, reason="Late.", begin_at=AT
    )


def use_allowance(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaLimit.objects.filter(project=cast.llm).update(monthly_unit_hours=1)
    QuotaCounter.objects.filter(limit__project=cast.llm).update(
        month=AT.date().replace(day=1), month_unit_seconds=3_600
    )


def forget_counter(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaCounter.objects.filter(limit__project=cast.llm).delete()


def take_nearly_all(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaLimit.objects.filter(project=cast.llm).update(limit_units=1)


def take_all(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaLimit.objects.filter(project=cast.llm).update(limit_units=0)


def know_the_pod(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    assert together(question(cluster, "llm", "odd")) == [1]


def grant_other_sizes(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaLimit.objects.filter(organization=cast.acme).update(size="small")


def grant_other_models(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaLimit.objects.filter(organization=cast.acme).update(model_group="H100")


def take_limits_away(cast: Cast, cluster: Cluster) -> None:  # noqa: ARG001 - As above.
    QuotaCounter.objects.filter(limit__organization=cast.acme).delete()
    QuotaLimit.objects.filter(organization=cast.acme).delete()


def only_warn(cast: Cast, cluster: Cluster) -> None:
    other = make_cluster("ampere")
    bind(other, "llm", cast.llm)
    Cluster.objects.filter(pk=cluster.pk).update(admission_mode="warn")


@pytest.mark.parametrize(
    "arrange",
    [
        close_project,
        close_organization,
        suspend,
        use_allowance,
        forget_counter,
        take_all,
        grant_other_sizes,
    ],
)
def test_what_is_not_admitted_is_left_out_and_nothing_of_it_is_written(
    cast: Cast, cluster: Cluster, arrange: Callable[[Cast, Cluster], None]
) -> None:
    limited(cast)
    arrange(cast, cluster)
    before = list(Reservation.objects.values("pod_uid"))

    numbers = together(question(cluster, "llm", "odd"), question(cluster, "virus", "plain"))

    assert numbers == [2]
    after = list(Reservation.objects.exclude(pod_uid="plain").values("pod_uid"))
    assert after == before
    assert not AdmissionRefusal.objects.exists()
    assert Reservation.objects.filter(pod_uid="plain").count() == 1


@pytest.mark.parametrize(
    ("arrange", "code", "warnings"),
    [
        (take_nearly_all, "allowed", 1),
        (know_the_pod, "allowed_before", 0),
        (grant_other_models, "allowed", 0),
        (take_limits_away, "allowed_ungoverned", 0),
    ],
)
def test_a_batch_answers_with_the_code_and_the_warnings_of_a_single_pod(
    cast: Cast,
    cluster: Cluster,
    arrange: Callable[[Cast, Cluster], None],
    code: str,
    warnings: int,
) -> None:
    limited(cast)
    arrange(cast, cluster)

    odd, plain = batch(question(cluster, "llm", "odd"), question(cluster, "virus", "plain"))

    assert plain is not None
    assert odd is not None
    assert (odd["code"], len(odd.get("nearly_full", ()))) == (code, warnings)
    assert Reservation.objects.filter(pod_uid="odd").count() == 1
    assert drifted() == []


def test_a_dry_run_is_answered_and_counts_nothing(cast: Cast, cluster: Cluster) -> None:
    acme, _, _ = limited(cast, units=3)
    dry = question(cluster, "llm", "dry", demand(3), is_dry_run=True)

    assert together(dry, question(cluster, "llm", "wet", demand(3))) == [1, 2]
    assert counted(acme) == (0, 3, 0, 0)
    assert Reservation.objects.values_list("pod_uid").get() == ("wet",)


@pytest.mark.parametrize("odd", [{"namespace": "nobodys"}, {"demands": (demand(101),)}])
def test_questions_that_are_denied_are_left_out(
    cast: Cast, cluster: Cluster, odd: dict[str, Any]
) -> None:
    limited(cast)
    plain = question(cluster, "virus", "plain")

    numbers = together(replace(question(cluster, "llm", "odd"), **odd), plain)

    assert numbers == [2]
    assert Reservation.objects.values_list("pod_uid").get() == ("plain",)


def test_a_cluster_that_only_warns_leaves_out_what_it_would_deny(
    cast: Cast, cluster: Cluster
) -> None:
    acme, _, _ = limited(cast)
    only_warn(cast, cluster)

    large = question(cluster, "llm", "a", demand(101))
    assert together(large, question(cluster, "llm", "b")) == [2]
    assert counted(acme) == (0, 1, 0, 0)
    assert alone(large)["code"] == "limit_reached"
    assert counted(acme) == (0, 102, 0, 0)


@pytest.mark.parametrize("namespace", ["llm", "vision"])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "example.com/gpu"])
def test_a_pod_that_is_asked_twice_is_left_out(
    cast: Cast, cluster: Cluster, namespace: str, resource: str
) -> None:
    acme, _, _ = limited(cast)
    twin = question(cluster, namespace, "twin", demand(resource=resource))

    assert together(question(cluster, "llm", "twin"), twin, question(cluster, "llm", "one")) == [3]
    assert Reservation.objects.values_list("pod_uid").get() == ("one",)
    assert counted(acme) == (0, 1, 0, 0)


def test_one_statement_asks_for_all(cast: Cast, cluster: Cluster) -> None:
    limited(cast)
    pods = [question(cluster, "llm", f"pod-{number}") for number in range(16)]

    assert together(*pods) == list(range(1, 17))
    assert Reservation.objects.count() == 16


PODS = st.lists(
    st.builds(
        lambda namespace, units, size, groups, owner, burst: (
            namespace,
            demand(units, size=size, groups=groups),
            {"owner": owner, "is_burst": burst},
        ),
        st.sampled_from(["llm", "vision", "virus", "nobodys"]),
        st.integers(1, 5),
        st.sampled_from(["large", "large", "small"]),
        st.sampled_from([("H100",), ("A100",), ("A100", "H100"), ()]),
        st.sampled_from(["", "bob", "nobody"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
LIMITS = st.lists(
    st.fixed_dictionaries(
        {
            "place": st.sampled_from(["acme", "llm", "bob", "umbrella", "virus"]),
            "size": st.sampled_from(["large", "small"]),
            "model_group": st.sampled_from(["", "", "H100"]),
            "units": st.sampled_from([None, 0, 3, 12, 40]),
            "burst_units": st.sampled_from([0, 12]),
        }
    ),
    max_size=6,
    unique_by=lambda one: (one["place"], one["size"], one["model_group"]),
)


@given(limits=LIMITS, pods=PODS)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_what_a_batch_admits_gets_the_verdict_of_a_single_pod_and_leaves_the_same(
    cast: Cast, limits: list[dict[str, Any]], pods: list[tuple[str, Any, dict[str, Any]]]
) -> None:
    with transaction.atomic():
        cluster = placed(cast)
        for fields in limits:
            open_counter(limit=limit_of(cast, fields), at=AT)
        asked = [
            question(cluster, namespace, f"pod-{number}", asks, **fields)
            for number, (namespace, asks, fields) in enumerate(pods)
        ]
        point = transaction.savepoint()
        verdicts = batch(*asked)
        found = state_of()
        transaction.savepoint_rollback(point)

        for one, verdict in zip(asked, verdicts, strict=True):
            assert verdict is None or alone(one) == verdict
        assert state_of() == found
        assert drifted() == []
        transaction.set_rollback(True)


def limit_of(cast: Cast, fields: dict[str, Any]) -> QuotaLimit:
    places: dict[str, Sequence[Any]] = {
        "acme": (cast.acme,),
        "llm": (cast.acme, cast.llm),
        "bob": (cast.acme, cast.llm, cast.bob),
        "umbrella": (cast.umbrella,),
        "virus": (cast.umbrella, cast.virus),
    }
    columns = {key: value for key, value in fields.items() if key != "place"}
    return make_limit(*places[fields["place"]], **columns)


def state_of() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows = Reservation.objects.order_by("pod_uid", "resource").values()
    counters = QuotaCounter.objects.order_by("limit_id").values()
    return [{**row, "id": 0} for row in rows], [dict(row) for row in counters]

"""Pods asked together, case by case: whom a limit counts, and what is left by who is left out."""

import json
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection, transaction

from quotas.domain.admission.values import Demand, PodQuestion
from quotas.models import (
    GrantReason,
    LimitScope,
    QuotaCounter,
    QuotaLimit,
    QuotaSuspension,
    Reservation,
)
from quotas.services.limits.changes import open_counter
from tenants.models import Cluster
from tests.quotas.services.admission.test_admit_many import (
    alone,
    limited,
    placed,
    reported,
    together,
    verdicts_of,
)
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.quotas.admitting import counted, demand, drifted, question
from tests.support.quotas.builders import make_grant, make_limit
from tests.support.shared_rows import shared_rows

OTHER = "example.com/gpu"


@shared_rows
def cluster(cast: Cast) -> Cluster:
    return placed(cast)


def opened(*holder: Any, **fields: Any) -> QuotaLimit:  # noqa: ANN401 - As `make_limit` takes them.
    """Return a limit whose counter is open."""
    limit = make_limit(*holder, **fields)
    with transaction.atomic():
        open_counter(limit=limit, at=AT)
    return limit


def reserved(limit: QuotaLimit) -> int:
    return counted(limit)[1]


def test_a_user_limit_counts_its_own_user_alone(cast: Cast, cluster: Cluster) -> None:
    acme, llm, _ = limited(cast)
    bob = opened(cast.acme, cast.llm, cast.bob, units=5)
    carol = opened(cast.acme, cast.llm, cast.carol, units=5)

    numbers = together(
        question(cluster, "llm", "b", demand(2), owner="bob"),
        question(cluster, "llm", "d", demand(3)),
        question(cluster, "llm", "n", demand(9), owner="nobody"),
        question(cluster, "llm", "c", demand(3), owner="bob"),
        question(cluster, "llm", "e", demand(1), owner="bob"),
    )

    # The namespace's default owner is carol; with "c" bob has all he may have.
    assert numbers == [1, 2, 3, 4]
    assert [reserved(one) for one in (acme, llm, bob, carol)] == [17, 17, 5, 3]
    assert drifted() == []


def test_limits_of_a_model_and_of_a_cluster_count_what_may_land_there(
    cast: Cast, cluster: Cluster
) -> None:
    acme, llm, _ = limited(cast)
    ampere = make_cluster("ampere")
    bind(ampere, "llm", cast.llm)
    hopper = opened(cast.acme, cluster=cluster, units=10)
    hundred = opened(cast.acme, cast.llm, model_group="H100", units=10)

    numbers = together(
        question(cluster, "llm", "h", demand(1)),
        question(ampere, "llm", "a", demand(2, groups=("A100",))),
        question(ampere, "llm", "both", demand(3, groups=("A100", "H100"))),
        question(cluster, "vision", "any", demand(4, groups=())),
        question(cluster, "llm", "full", demand(6, groups=())),
    )

    assert numbers == [1, 2, 3, 4]
    assert [reserved(one) for one in (acme, llm, hopper, hundred)] == [10, 6, 5, 4]
    assert drifted() == []


def test_one_counter_that_is_full_leaves_all_others_as_they_were(
    cast: Cast, cluster: Cluster
) -> None:
    acme, llm, umbrella = limited(cast)
    bob = opened(cast.acme, cast.llm, cast.bob, units=2, burst_units=2)
    QuotaLimit.objects.exclude(pk=bob.pk).update(burst_units=50)

    numbers = together(
        question(cluster, "llm", "full", demand(3), owner="bob"),
        question(cluster, "llm", "burst", demand(3), owner="bob", is_burst=True),
        question(cluster, "llm", "plain", demand(4)),
        question(cluster, "llm", "one", demand(1), owner="bob", is_burst=True),
        question(cluster, "virus", "v", demand(5), is_burst=True),
    )

    assert numbers == [3, 4, 5]
    assert [counted(one) for one in (acme, llm, bob)] == [(0, 4, 0, 1), (0, 4, 0, 1), (0, 0, 0, 1)]
    assert counted(umbrella) == (0, 0, 0, 5)
    assert drifted() == []


@pytest.mark.parametrize(
    ("second", "numbers"),
    [
        (demand(3, resource=OTHER), [1, 2]),
        (demand(11, resource=OTHER), [2]),
        (demand(1, resource=OTHER, size="small"), [2]),
    ],
)
def test_every_demand_of_a_pod_has_to_fit_beside_its_others(
    cast: Cast, cluster: Cluster, second: Demand, numbers: list[int]
) -> None:
    acme, llm, umbrella = limited(cast, units=12)

    found = together(
        question(cluster, "llm", "two", demand(2), second), question(cluster, "virus", "v")
    )

    assert found == numbers
    assert [reserved(one) for one in (acme, llm)] == ([5, 5] if len(numbers) > 1 else [0, 0])
    assert reserved(umbrella) == 1
    assert drifted() == []


def test_a_pod_without_a_grant_takes_no_room_from_those_after_it(
    cast: Cast, cluster: Cluster
) -> None:
    acme, _, _ = limited(cast, units=10)

    numbers = together(
        question(cluster, "llm", "odd", demand(8), demand(1, resource=OTHER, size="small")),
        question(cluster, "llm", "plain", demand(8)),
    )

    assert numbers == [2]
    assert reserved(acme) == 8


def test_a_loan_that_is_given_takes_room_while_it_lasts(cast: Cast, cluster: Cluster) -> None:
    acme, llm, _ = limited(cast, units=10)
    make_grant(llm, -4, reason=GrantReason.MANUAL)

    assert together(question(cluster, "llm", "seven", demand(7))) == []
    assert together(question(cluster, "llm", "six", demand(6))) == [1]
    assert (reserved(acme), reserved(llm)) == (6, 6)


def test_a_limit_of_another_size_needs_its_counter_too(cast: Cast, cluster: Cluster) -> None:
    acme, _, _ = limited(cast)
    make_limit(cast.acme, size="small")

    assert together(question(cluster, "llm", "a"), question(cluster, "virus", "b")) == [2]
    assert reserved(acme) == 0


def test_a_suspended_organization_is_left_out_whole(cast: Cast, cluster: Cluster) -> None:
    limited(cast)
    QuotaSuspension.objects.create(organization=cast.acme, reason="Late.", begin_at=AT)

    pods = [question(cluster, name, name) for name in ("llm", "vision", "virus")]
    assert together(*pods) == [3]


def test_an_allowance_that_is_used_up_leaves_out_burst_too(cast: Cast, cluster: Cluster) -> None:
    limited(cast)
    QuotaLimit.objects.update(burst_units=50)
    QuotaLimit.objects.filter(scope=LimitScope.PROJECT).update(monthly_unit_hours=2)
    QuotaCounter.objects.update(month=AT.date().replace(day=1), month_unit_seconds=7_199)
    pods = [question(cluster, "llm", f"{burst}", is_burst=burst) for burst in (True, False)]

    QuotaCounter.objects.update(month_unit_seconds=7_200)
    assert together(*pods) == []
    QuotaCounter.objects.update(month_unit_seconds=7_199)
    assert together(*pods) == [1, 2]


def test_a_pod_that_stands_twice_is_left_out_though_one_is_in_nobodys_namespace(
    cast: Cast, cluster: Cluster
) -> None:
    limited(cast)
    pods = [question(cluster, name, "twin") for name in ("llm", "nobodys")]

    assert together(*pods, question(cluster, "llm", "one")) == [3]
    assert Reservation.objects.values_list("pod_uid").get() == ("one",)


def test_nobody_asks_and_nobody_is_let_in(cast: Cast, cluster: Cluster) -> None:
    limited(cast)

    assert together() == []
    assert together(question(cluster, "nobodys")) == []
    assert together(question(cluster, "llm", "a", demand(101)), question(cluster, "nobodys")) == []
    assert not Reservation.objects.exists()


NAMELESS = ["cluster_id", "namespace", "at", "demands"]
REFUSED = ["pod_uid", "pod_name", "owner", "is_burst", "controller"]


@pytest.mark.parametrize("key", NAMELESS)
def test_who_does_not_say_where_or_what_is_left_out(cast: Cast, cluster: Cluster, key: str) -> None:
    limited(cast)

    assert ask_without(key, question(cluster, "llm", "odd"), question(cluster, "virus", "b")) == [2]
    assert Reservation.objects.values_list("pod_uid").get() == ("b",)


@pytest.mark.parametrize("key", REFUSED)
def test_what_the_ledger_has_to_keep_is_never_left_blank(
    cast: Cast, cluster: Cluster, key: str
) -> None:
    acme, _, _ = limited(cast)
    numbers: list[int] = []

    try:
        with transaction.atomic():
            numbers = ask_without(key, question(cluster, "llm", "odd"))
    except IntegrityError as error:
        assert "violates not-null constraint" in str(error)  # noqa: PT017 - One of two good ends.

    assert numbers == []
    assert not Reservation.objects.exists()
    assert reserved(acme) == 0


def ask_without(key: str, *pods: PodQuestion) -> list[int]:
    """Return who is let in, where the first does not say one thing."""
    asked = [json.loads(reported(pod)) for pod in pods]
    asked[0][key] = None
    asked.append({**asked[-1], "namespace": "fill", "pod_uid": "fill"})
    verdicts = verdicts_of(json.dumps(asked))
    return [number for number, one in enumerate(verdicts, start=1) if one is not None]


READ = "SELECT pg_stat_get_xact_tuples_returned('reservation_unique'::regclass)"


@pytest.mark.usefixtures("committed_db")
def test_a_plan_made_while_the_ledger_was_empty_reads_no_more_once_it_is_full(
    superuser_url: str,
) -> None:
    cast = make_cast()
    cluster = placed(cast)
    limits = limited(cast, units=100_000)
    fill(cast, cluster, "purged")
    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute("DELETE FROM quotas_reservation")
        superuser.execute("VACUUM ANALYZE")
    pods = [question(cluster, "llm", f"pod-{number}") for number in range(4)]

    assert together(*pods[:2]) == [1, 2]
    fill(cast, cluster, "full")
    with transaction.atomic():
        before = entries_read()
        assert together(*pods) == [1, 2, 3, 4]
        after = entries_read()

    assert after - before <= len(pods)
    assert reserved(limits[0]) == 4
    assert alone(pods[0])["code"] == "allowed_before"


def fill(cast: Cast, cluster: Cluster, mark: str) -> None:
    """Have a thousand reservations in the ledger that count nowhere."""
    Reservation.objects.bulk_create(
        [
            Reservation(
                cluster=cluster,
                pod_uid=f"{mark}-{number}",
                resource=OTHER,
                namespace="llm",
                pod_name=mark,
                organization=cast.acme,
                project=cast.llm,
                size="large",
                units=1,
                state="released",
                origin="found",
                admitted_at=AT,
                released_at=AT,
            )
            for number in range(1_000)
        ]
    )


def entries_read() -> int:
    """Return how many entries of the reservations' index this transaction has read."""
    with connection.cursor() as cursor:
        cursor.execute(READ)
        (read,) = cursor.fetchone()
    return int(read)

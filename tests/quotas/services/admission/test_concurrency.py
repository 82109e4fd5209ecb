"""What must hold when many pods of one organization ask at once, and limits change meanwhile."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from django.db import connections, transaction

from quotas.domain.admission.values import VerdictCode
from quotas.models import LimitScope, QuotaCounter, QuotaLimit, Reservation
from quotas.services.admission.live_use import repair_counters
from quotas.services.limits.changes import lock_counters, open_counter
from tenants.domain.actors import system_actor
from tenants.migrations._sql import install
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.quotas.admitting import ask, counted, demand, drifted, held_by_truth, sweep
from tests.support.quotas.builders import make_limit

pytestmark = pytest.mark.usefixtures("committed_db")
ACTOR = system_actor("tests")
[OVER] = install("quotas/sql/quotas_over.v1.sql")
SLOW_LOOK = """
CREATE OR REPLACE FUNCTION quotas_over(organization uuid, moment timestamptz)
RETURNS TABLE (reservation_id bigint, reason text) LANGUAGE sql STABLE AS $$
  SELECT NULL::bigint, ''::text FROM (SELECT pg_sleep(3) AS slept OFFSET 0) s
   WHERE s.slept IS NULL
$$
"""


def at_once(*calls: Callable[[], object]) -> list[object]:
    """Run calls on connections of their own that start together."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        barrier.wait(timeout=30)
        try:
            return call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(timeout=60) for future in [pool.submit(run, c) for c in calls]]


def stage() -> tuple[Cast, Cluster]:
    cast = make_cast()
    cluster = make_cluster("hopper")
    for name, project in (("llm", cast.llm), ("vision", cast.vision)):
        bind(cluster, name, project)
    return cast, cluster


def pods(
    cluster: Cluster, count: int, *, name: str = "pod", units: int = 1
) -> list[Callable[[], object]]:
    def one(number: int) -> Callable[[], object]:
        namespace = "llm" if number % 2 else "vision"
        return lambda: ask(cluster, namespace, f"{name}-{number}", demand(units)).is_allowed

    return [one(number) for number in range(count)]


def test_of_64_requests_for_the_last_unit_exactly_one_is_let_in() -> None:
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=3)
    ask(cluster, "llm", "before", demand(2))

    answers = at_once(*pods(cluster, 64))

    assert answers.count(True) == 1
    assert counted(limit) == (0, 3, 0, 0)
    assert Reservation.objects.count() == 2
    assert drifted() == []


def test_64_requests_of_one_pod_count_once() -> None:
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=64)

    codes = at_once(*[lambda: ask(cluster, "llm", "pod-1").code] * 16)

    assert sorted(codes, key=str) == ["allowed"] + ["allowed_before"] * 15
    assert counted(limit) == (0, 1, 0, 0)


def test_a_limit_that_is_made_while_pods_ask_counts_every_one_of_them() -> None:
    cast, cluster = stage()

    def make() -> object:
        with transaction.atomic():
            limit = make_limit(cast.acme, cast.llm, units=5)
            open_counter(limit=limit, at=AT)
        return limit

    for number in range(4):
        at_once(make, *pods(cluster, 12, name=f"round-{number}"))
        limit = QuotaLimit.objects.get()
        assert drifted() == []
        assert counted(limit)[1] == held_by_truth(limit)
        remove(limit)


def remove(limit: QuotaLimit) -> None:
    with transaction.atomic():
        lock_counters(organization_id=limit.organization_id)
        limit.delete()


def test_a_limit_that_is_removed_while_pods_ask_stops_nobody() -> None:
    cast, cluster = stage()
    whole, part = make_limit(cast.acme, units=64), make_limit(cast.acme, cast.llm, units=64)
    ask(cluster, "llm", "before")

    at_once(lambda: remove(part), *pods(cluster, 24))

    assert QuotaCounter.objects.count() == 1
    assert counted(whole) == (0, 25, 0, 0)
    assert drifted() == []


def test_once_a_limit_is_lowered_no_pod_is_let_in_above_it() -> None:
    cast, cluster = stage()
    limit = make_limit(cast.acme, units=40)
    seen: list[int] = []

    def lower() -> object:
        QuotaLimit.objects.filter(pk=limit.pk).update(limit_units=10)
        seen.append(Reservation.objects.count())
        return None

    at_once(lower, *pods(cluster, 31))
    after = at_once(*pods(cluster, 16, name="after"))

    reserved = counted(limit)[1]
    assert reserved <= max(10, seen[0] + 31)
    assert after.count(True) == max(0, 10 - (reserved - after.count(True)))
    assert drifted() == []


def test_sweeps_and_repairs_beside_admission_neither_drift_nor_deadlock() -> None:
    cast, cluster = stage()
    limits = [
        make_limit(cast.acme, units=100),
        make_limit(cast.acme, cast.llm, units=100),
        make_limit(cast.acme, cast.vision, units=100),
    ]
    ask(cluster, "llm", "before")
    QuotaCounter.objects.update(reserved_units=7)

    def expire() -> object:
        return sweep(AT)

    def repair() -> object:
        return repair_counters(actor=ACTOR, at=AT)

    at_once(expire, repair, *pods(cluster, 20), expire, repair, *pods(cluster, 20, name="more"))
    repair()

    assert drifted() == []
    assert counted(limits[0]) == (0, 41, 0, 0)


def test_pods_of_several_sizes_lock_in_one_order() -> None:
    cast, cluster = stage()
    for size in ("small", "medium", "large"):
        make_limit(cast.acme, units=500, size=size)
        make_limit(cast.acme, cast.llm, units=500, size=size)
        make_limit(cast.acme, cast.vision, units=500, size=size)
    sizes = ["small", "medium", "large"]

    def pod(number: int) -> Callable[[], object]:
        turned = sizes[number % 3 :] + sizes[: number % 3]
        asked = [demand(1, size=size, resource=f"r/{size}") for size in turned]
        namespace = "llm" if number % 2 else "vision"
        return lambda: [
            ask(cluster, namespace, f"pod-{number}-{again}", *asked).is_allowed
            for again in range(5)
        ]

    answers = at_once(*[pod(number) for number in range(16)])

    assert answers == [[True] * 5] * 16
    whole = QuotaLimit.objects.filter(scope=LimitScope.ORGANIZATION)
    assert [counted(limit) for limit in whole] == [(0, 80, 0, 0)] * 3
    assert drifted() == []


def test_counters_are_locked_inside_a_transaction() -> None:
    cast = make_cast()
    limit = make_limit(cast.acme)

    with pytest.raises(RuntimeError, match="inside a transaction"):
        lock_counters(organization_id=cast.acme.pk)
    with pytest.raises(RuntimeError, match="inside a transaction"):
        open_counter(limit=limit, at=AT)

    assert not QuotaCounter.objects.exists()


def test_who_is_refused_keeps_nobody_waiting_while_it_looks_for_room(superuser_url: str) -> None:
    cast, cluster = stage()
    limits = [make_limit(cast.acme, cast.llm, units=1), make_limit(cast.acme, units=100)]
    make_limit(cast.acme, cast.vision, units=50)
    with transaction.atomic():
        for limit in QuotaLimit.objects.all():
            open_counter(limit=limit, at=AT)
    ask(cluster, "llm", "first", demand(1))
    is_looking = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'"

    def fits() -> object:
        with psycopg.connect(superuser_url, autocommit=True) as watching:
            deadline = time.monotonic() + 20
            while not watching.execute(is_looking).fetchall():
                assert time.monotonic() < deadline, "Nobody looks."
            reported = ask(cluster, "vision", "fits", demand(1)).is_allowed
            return reported, len(watching.execute(is_looking).fetchall())

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(SLOW_LOOK)
        try:
            refused = lambda: ask(cluster, "llm", "second", demand(1)).code  # noqa: E731
            reported = at_once(refused, fits)
        finally:
            superuser.execute(str(OVER.sql).encode())

    assert reported == [VerdictCode.LIMIT_REACHED, (True, 1)]
    assert [counted(limit)[1] for limit in limits] == [1, 2]

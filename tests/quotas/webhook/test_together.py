"""Pods of one process are asked about on one connection, and each by itself where that fails."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction
from psycopg.pq.abc import PGconn

from quotas.domain.admission.values import AdmissionVerdict, PodQuestion
from quotas.models import QuotaLimit, Reservation
from quotas.services.admission import admission
from quotas.services.admission.admission import admit, admit_batch, question_json
from quotas.services.limits.changes import open_counter
from quotas.webhook import together as module
from quotas.webhook.guard import cut_socket
from quotas.webhook.together import Together
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import make_cast
from tests.support.quotas.admitting import TTL_SECONDS, counted, demand, drifted, question
from tests.support.quotas.builders import make_limit
from tests.support.quotas.connecting import connected_as_admission, is_given_up

SECOND = 1_000_000_000
DEADLINE_NANOSECONDS = 5 * SECOND


@pytest.fixture
def place(committed_db: str) -> tuple[Cluster, QuotaLimit]:
    """Return a cluster, and the limit of all its pods."""
    assert committed_db
    cast, cluster = make_cast(), make_cluster("hopper")
    for name, project in (("llm", cast.llm), ("vision", cast.vision)):
        bind(cluster, name, project)
    limit = make_limit(cast.acme, units=1_000)
    with transaction.atomic():
        open_counter(limit=limit, at=AT)
    return cluster, limit


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many pods each statement admitted."""
    carried: list[int] = []

    async def noting(**given: Any) -> Sequence[AdmissionVerdict | None]:  # noqa: ANN401 - As it takes them.
        verdicts = await admit_batch(**given)
        carried.append(sum(one is not None and one.is_allowed for one in verdicts))
        return verdicts

    monkeypatch.setattr(module, "admit_batch", noting)
    return carried


def pods(cluster: Cluster, count: int) -> list[PodQuestion]:
    namespaces = ("llm", "vision")
    return [
        question(cluster, namespaces[number % 2], f"pod-{number}", demand(1))
        for number in range(count)
    ]


def alone(one: PodQuestion) -> AdmissionVerdict:
    try:
        return admit(question=one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")
    finally:
        connections.close_all()


def asked(one: PodQuestion) -> str:
    return question_json(one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")


async def answer(asks: Together, one: PodQuestion) -> str:
    """Return what is answered to one pod, as the endpoint asks."""
    verdict = await asks.verdict(asked(one))
    if verdict is None:
        verdict = await asyncio.to_thread(alone, one)
    return verdict.code.value


async def is_admitted(asks: Together, one: PodQuestion) -> bool:
    """Return whether a batch admits a pod."""
    verdict = await asks.verdict(asked(one))
    return verdict is not None and verdict.is_allowed


def answers(*every: PodQuestion) -> list[str]:
    """Return what is answered to pods that ask at the same time."""

    async def all_at_once() -> list[str]:
        asks = Together(DEADLINE_NANOSECONDS, time.monotonic_ns)
        try:
            return await asyncio.gather(*[answer(asks, one) for one in every])
        finally:
            await asks.close()

    return asyncio.run(all_at_once())


def test_every_pod_is_let_in_and_counted_once(
    place: tuple[Cluster, QuotaLimit], statements: list[int]
) -> None:
    cluster, limit = place

    assert answers(*pods(cluster, 48)) == ["allowed"] * 48
    assert counted(limit) == (0, 48, 0, 0)
    assert statements == [16, 16, 16] or sum(statements) == 48
    assert len(statements) < 48
    assert drifted() == []


def test_of_64_for_the_last_unit_exactly_one_is_let_in(place: tuple[Cluster, QuotaLimit]) -> None:
    cluster, limit = place
    QuotaLimit.objects.update(limit_units=1)

    assert sorted(answers(*pods(cluster, 64))) == ["allowed"] + ["limit_reached"] * 63
    assert counted(limit) == (0, 1, 0, 0)
    assert Reservation.objects.count() == 1


def test_limits_that_fill_up_are_filled_to_the_last_unit(
    place: tuple[Cluster, QuotaLimit],
) -> None:
    cluster, limit = place
    QuotaLimit.objects.update(limit_units=30)

    assert answers(*pods(cluster, 48)).count("allowed") == 30
    assert counted(limit) == (0, 30, 0, 0)
    assert drifted() == []


def test_one_pod_that_is_asked_by_many_counts_once(place: tuple[Cluster, QuotaLimit]) -> None:
    cluster, limit = place

    reported = answers(*pods(cluster, 1) * 16)

    assert set(reported) <= {"allowed", "allowed_before"}
    assert counted(limit) == (0, 1, 0, 0)
    assert Reservation.objects.count() == 1


def test_two_processes_let_in_no_pod_twice(place: tuple[Cluster, QuotaLimit]) -> None:
    """Each has a connection of its own, and they meet at the same counters."""
    cluster, limit = place
    QuotaLimit.objects.update(limit_units=40)
    every = pods(cluster, 64)

    async def both() -> list[str]:
        pair = [Together(DEADLINE_NANOSECONDS, time.monotonic_ns) for _ in range(2)]
        try:
            return await asyncio.gather(*[answer(pair[n % 2], one) for n, one in enumerate(every)])
        finally:
            for asks in pair:
                await asks.close()

    assert asyncio.run(both()).count("allowed") == 40
    assert counted(limit) == (0, 40, 0, 0)
    assert drifted() == []


def test_a_connection_that_was_ended_is_replaced(
    place: tuple[Cluster, QuotaLimit], statements: list[int], superuser_url: str
) -> None:
    cluster, limit = place
    first, second = pods(cluster, 2)

    def end() -> None:
        with psycopg.connect(superuser_url, autocommit=True) as superuser:
            ended = superuser.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND query LIKE '%quotas_admit(%'"
            ).fetchall()
        assert ended == [(True,)]

    async def scene() -> list[str]:
        asks = Together(DEADLINE_NANOSECONDS, time.monotonic_ns)
        try:
            reported = [await answer(asks, first)]
            await asyncio.to_thread(end)
            return [*reported, await answer(asks, second)]
        finally:
            await asks.close()

    assert asyncio.run(scene()) == ["allowed", "allowed"]
    assert statements == [1, 1]
    assert counted(limit) == (0, 2, 0, 0)


def test_counters_that_somebody_holds_are_waited_for_by_each_alone(
    place: tuple[Cluster, QuotaLimit], statements: list[int]
) -> None:
    cluster, limit = place
    (one,) = pods(cluster, 1)

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE quotas_quotacounter IN ACCESS EXCLUSIVE MODE")

        def hurried() -> AdmissionVerdict:
            with connection.cursor() as mine:
                mine.execute("SET lock_timeout = '300ms'")
            return alone(one)

        async def scene() -> AdmissionVerdict:
            asks = Together(DEADLINE_NANOSECONDS, time.monotonic_ns)
            try:
                assert not await is_admitted(asks, one)
                return await asyncio.to_thread(hurried)
            finally:
                await asks.close()

        with pytest.raises(OperationalError):
            asyncio.run(scene())

    assert statements == []
    assert counted(limit) == (0, 0, 0, 0)
    assert answers(one) == ["allowed"]
    assert counted(limit) == (0, 1, 0, 0)


@pytest.mark.parametrize("faults", [0, 2], ids=["at_once", "after_faults"])
def test_a_statement_that_takes_longer_than_a_turn_is_cut_and_counts_nothing(
    place: tuple[Cluster, QuotaLimit],
    superuser_url: str,
    monkeypatch: pytest.MonkeyPatch,
    faults: int,
) -> None:
    """The turn itself ends: the next question is asked on another connection."""
    cluster, limit = place
    first, second = pods(cluster, 2)
    left = [OSError("no descriptor")] * faults

    def cut(connection: PGconn) -> None:
        if left:
            raise left.pop()
        cut_socket(connection)

    monkeypatch.setattr(module, "cut_socket", cut)
    monkeypatch.setattr(admission, "BATCH_LOCK_MILLISECONDS", 20_000)

    async def scene(holding: psycopg.Connection) -> list[bool]:
        now = [0]
        asks = Together(SECOND, lambda: now[0])
        try:
            reported = [await is_admitted(asks, first)]
            await asyncio.wait_for(asks.rest(), 5)
            assert await asyncio.to_thread(is_given_up, superuser_url)
            holding.rollback()
            now[0] = 2 * SECOND
            return [*reported, await is_admitted(asks, second)]
        finally:
            await asks.close()

    with connected_as_admission(9), psycopg.connect(superuser_url) as holding:
        holding.execute("LOCK TABLE quotas_quotacounter IN ACCESS EXCLUSIVE MODE")
        assert asyncio.run(scene(holding)) == [False, True]

    assert left == []
    assert counted(limit) == (0, 1, 0, 0)
    assert drifted() == []


def test_a_connection_that_takes_long_is_there_for_a_later_turn(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place
    one, other = pods(cluster, 2)
    connect = psycopg.AsyncConnection.connect
    tried: list[int] = []

    async def scene() -> tuple[bool, list[int]]:
        go = asyncio.Event()

        async def slowly(**parameters: Any) -> psycopg.AsyncConnection:  # noqa: ANN401 - As it takes them.
            tried.append(1)
            await go.wait()
            return await connect(**parameters)

        monkeypatch.setattr(psycopg.AsyncConnection, "connect", slowly)
        now = [0]
        asks = Together(SECOND // 10, lambda: now[0])
        try:
            assert not await is_admitted(asks, one)
            go.set()
            await asyncio.wait_for(asks.rest(), 5)
            now[0] = 2 * SECOND
            return await is_admitted(asks, other), tried
        finally:
            await asks.close()

    assert asyncio.run(scene()) == (True, [1])
    assert counted(limit) == (0, 1, 0, 0)


def test_no_statement_is_prepared_and_no_limit_stays(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = place
    seen: list[tuple[Any, ...]] = []

    async def looking(**given: Any) -> Sequence[AdmissionVerdict | None]:  # noqa: ANN401 - As it takes them.
        verdicts = await admit_batch(**given)
        for asked_of in ("SHOW lock_timeout", "SELECT count(*) FROM pg_prepared_statements"):
            seen.extend(await (await given["using"].execute(asked_of)).fetchall())
        return verdicts

    monkeypatch.setattr(module, "admit_batch", looking)

    assert answers(*pods(cluster, 3)) == ["allowed"] * 3
    assert seen == [("2s",), (0,)]


def test_a_fault_of_ours_leaves_each_to_ask_alone(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place

    async def fail(**_: object) -> Sequence[AdmissionVerdict | None]:
        raise ValueError("no")

    monkeypatch.setattr(module, "admit_batch", fail)

    assert answers(*pods(cluster, 4)) == ["allowed"] * 4
    assert counted(limit) == (0, 4, 0, 0)


def test_a_ledger_that_is_busy_after_it_was_away_is_asked_again(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place
    errors = [psycopg.errors.AdminShutdown("away"), psycopg.errors.LockNotAvailable("busy")]
    now = [0]

    async def troubled(**given: Any) -> Sequence[AdmissionVerdict | None]:  # noqa: ANN401 - As it takes them.
        if errors:
            raise errors.pop(0)
        return await admit_batch(**given)

    monkeypatch.setattr(module, "admit_batch", troubled)

    async def scene() -> list[bool]:
        asks = Together(DEADLINE_NANOSECONDS, lambda: now[0])
        one, other = pods(cluster, 2)
        try:
            reported = [await is_admitted(asks, one)]
            now[0] = SECOND
            reported.append(await is_admitted(asks, one))
            return [*reported, await is_admitted(asks, other)]
        finally:
            await asks.close()

    assert asyncio.run(scene()) == [False, False, True]
    assert counted(limit) == (0, 1, 0, 0)


def test_a_statement_that_is_refused_leaves_each_to_ask_alone(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place

    async def refuse(**_: object) -> Sequence[AdmissionVerdict | None]:
        raise psycopg.errors.LockNotAvailable("no")

    monkeypatch.setattr(module, "admit_batch", refuse)

    assert answers(*pods(cluster, 8)) == ["allowed"] * 8
    assert counted(limit) == (0, 8, 0, 0)


def test_a_ledger_that_refuses_a_connection_is_left_alone_for_a_moment(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place
    tried: list[int] = []

    async def refuse(**_: object) -> psycopg.AsyncConnection:
        tried.append(1)
        raise psycopg.OperationalError("too many clients already")

    async def scene() -> list[str]:
        # The clock stands still: nobody tries again, and each asks by itself.
        asks = Together(DEADLINE_NANOSECONDS, lambda: 0)
        return [await answer(asks, one) for one in pods(cluster, 3)]

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)

    assert asyncio.run(scene()) == ["allowed"] * 3
    assert tried == [1]
    assert counted(limit) == (0, 3, 0, 0)

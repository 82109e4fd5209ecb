"""Pods of one process are asked about on one connection, and each by itself where that fails."""

import asyncio
import time
from collections.abc import Collection, Sequence

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction

from quotas.domain.admission import PodQuestion, Verdict, VerdictCode
from quotas.models import QuotaLimit, Reservation
from quotas.services.admission import admit, admit_together, question_json
from quotas.services.counters import open_counter
from quotas.webhook import together as module
from quotas.webhook.together import NotConnectedError, Together
from tenants.models import Cluster
from tests.builders import AT, bind, make_cluster
from tests.cast import make_cast
from tests.quotas.admitting import TTL_SECONDS, counted, demand, drifted, question
from tests.quotas.builders import make_limit

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
    """Return how many pods each statement let in."""
    carried: list[int] = []

    async def noting(
        *, questions: Sequence[str], using: psycopg.AsyncConnection
    ) -> Collection[int]:
        numbers = await admit_together(questions=questions, using=using)
        carried.append(len(numbers))
        return numbers

    monkeypatch.setattr(module, "admit_together", noting)
    return carried


def pods(cluster: Cluster, count: int) -> list[PodQuestion]:
    namespaces = ("llm", "vision")
    return [
        question(cluster, namespaces[number % 2], f"pod-{number}", demand(1))
        for number in range(count)
    ]


def alone(one: PodQuestion) -> Verdict:
    try:
        return admit(question=one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")
    finally:
        connections.close_all()


async def answer(asks: Together, one: PodQuestion) -> str:
    """Return what is answered to one pod, as the door asks."""
    text = question_json(one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")
    if await asks.let_in(text):
        return VerdictCode.ALLOWED.value
    return (await asyncio.to_thread(alone, one)).code.value


def answers(*asked: PodQuestion, nanoseconds: int = DEADLINE_NANOSECONDS) -> list[str]:
    """Return what is answered to pods that ask at the same time."""

    async def all_at_once() -> list[str]:
        asks = Together(nanoseconds, time.monotonic_ns)
        try:
            return await asyncio.gather(*[answer(asks, one) for one in asked])
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

    told = answers(*pods(cluster, 1) * 16)

    assert set(told) <= {"allowed", "allowed_before"}
    assert counted(limit) == (0, 1, 0, 0)
    assert Reservation.objects.count() == 1


def test_two_processes_let_in_no_pod_twice(place: tuple[Cluster, QuotaLimit]) -> None:
    """Each has a connection of its own, and they meet at the same counters."""
    cluster, limit = place
    QuotaLimit.objects.update(limit_units=40)
    asked = pods(cluster, 64)

    async def both() -> list[str]:
        pair = [Together(DEADLINE_NANOSECONDS, time.monotonic_ns) for _ in range(2)]
        try:
            return await asyncio.gather(*[answer(pair[n % 2], one) for n, one in enumerate(asked)])
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
            superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                " AND query LIKE '%%quotas_admit_many%%'"
            )

    async def scene() -> list[str]:
        asks = Together(DEADLINE_NANOSECONDS, time.monotonic_ns)
        try:
            told = [await answer(asks, first)]
            await asyncio.to_thread(end)
            return [*told, await answer(asks, second)]
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

        def hurried() -> Verdict:
            with connection.cursor() as mine:
                mine.execute("SET lock_timeout = '300ms'")
            return alone(one)

        async def scene() -> Verdict:
            asks = Together(DEADLINE_NANOSECONDS, time.monotonic_ns)
            text = question_json(one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")
            try:
                assert not await asks.let_in(text)
                return await asyncio.to_thread(hurried)
            finally:
                await asks.close()

        with pytest.raises(OperationalError):
            asyncio.run(scene())

    assert statements == []
    assert counted(limit) == (0, 0, 0, 0)
    assert answers(one) == ["allowed"]
    assert counted(limit) == (0, 1, 0, 0)


def test_a_statement_that_takes_longer_than_a_turn_is_cut_and_counts_nothing(
    place: tuple[Cluster, QuotaLimit], superuser_url: str
) -> None:
    cluster, limit = place
    patient = "ALTER FUNCTION quotas_admit_many(jsonb) SET lock_timeout = "
    (one,) = pods(cluster, 1)

    async def scene() -> tuple[bool, int]:
        asks = Together(SECOND // 5, time.monotonic_ns)
        text = question_json(one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")
        begin = time.monotonic_ns()
        try:
            return await asks.let_in(text), time.monotonic_ns() - begin
        finally:
            await asks.close()

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"{patient}'20s'")
        try:
            with psycopg.connect(superuser_url) as holding:
                holding.execute("LOCK TABLE quotas_quotacounter IN ACCESS EXCLUSIVE MODE")
                is_let_in, took = asyncio.run(scene())
                holding.rollback()
        finally:
            superuser.execute(f"{patient}'25ms'")

    assert not is_let_in
    assert took < 2 * SECOND
    assert answers(one)[0] in {"allowed", "allowed_before"}
    assert counted(limit) == (0, 1, 0, 0)


def test_a_statement_that_is_refused_leaves_each_to_ask_alone(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place

    async def refuse(**_: object) -> Collection[int]:
        raise psycopg.errors.LockNotAvailable("no")

    monkeypatch.setattr(module, "admit_together", refuse)

    assert answers(*pods(cluster, 8)) == ["allowed"] * 8
    assert counted(limit) == (0, 8, 0, 0)


def test_a_ledger_that_takes_no_connection_is_tried_once_and_left_alone_for_a_moment(
    place: tuple[Cluster, QuotaLimit], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place
    tried: list[int] = []
    one, other = pods(cluster, 2)

    async def refuse(**_: object) -> psycopg.AsyncConnection:
        tried.append(1)
        raise psycopg.OperationalError("no route")

    async def scene() -> str:
        asks = Together(DEADLINE_NANOSECONDS, lambda: 0)
        text = question_json(one, at=AT, ttl_seconds=TTL_SECONDS, unbound="deny")
        with pytest.raises(NotConnectedError, match="no route"):
            await asks.let_in(text)
        # The clock stands still: nobody tries again, and each asks by itself.
        return await answer(asks, other)

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", refuse)

    assert asyncio.run(scene()) == "allowed"
    assert tried == [1]
    assert counted(limit) == (0, 1, 0, 0)

"""Pods that are asked about while somebody else is half way: what stands, and what is answered."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction
from psycopg.errors import LockNotAvailable

from quotas.domain.admission.values import PodQuestion
from quotas.models import QuotaCounter, Reservation
from tests.quotas.services.admission.test_admit_many import alone, limited, placed, together
from tests.quotas.services.admission.test_concurrency import at_once
from tests.support.cast import make_cast
from tests.support.quotas.admitting import counted, demand, drifted, question

PATIENCE_SECONDS = 20


def while_held(call: Callable[[], object], meanwhile: Callable[[], object]) -> object:
    """Begin a call, do something once it waits for what this transaction holds, and let it go on.

    The caller has a transaction open; it ends here.
    """

    def run() -> object:
        try:
            return call()
        finally:
            connections.close_all()

    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    deadline = time.monotonic() + PATIENCE_SECONDS
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone() != (0,):
                break
            assert time.monotonic() < deadline, "It waits for nothing."
    meanwhile()
    connection.commit()
    connection.set_autocommit(True)
    try:
        return future.result(timeout=PATIENCE_SECONDS)
    finally:
        pool.shutdown()


@pytest.mark.usefixtures("committed_db")
@pytest.mark.parametrize("change", ["moved", "deleted"])
def test_whose_a_namespace_is_is_read_once(superuser_url: str, change: str) -> None:
    cast = make_cast()
    cluster = placed(cast)
    acme, llm, umbrella = limited(cast)

    def rebind() -> None:
        with psycopg.connect(superuser_url, autocommit=True) as superuser:
            if change == "moved":
                superuser.execute(
                    "UPDATE tenants_namespacebinding SET project_id = %s WHERE namespace = 'llm'",
                    [cast.virus.pk],
                )
            else:
                superuser.execute("DELETE FROM tenants_namespacebinding WHERE namespace = 'llm'")

    connection.set_autocommit(False)
    list(QuotaCounter.objects.order_by().select_for_update())
    numbers = while_held(lambda: together(question(cluster, "llm", "pod", demand(2))), rebind)

    assert numbers == [1]
    row = Reservation.objects.get()
    assert (row.organization, row.project, row.units) == (cast.acme, cast.llm, 2)
    assert [counted(one)[1] for one in (acme, llm, umbrella)] == [2, 2, 0]
    assert drifted() == []


@pytest.mark.usefixtures("committed_db")
def test_a_pod_that_was_let_in_while_it_asks_again_is_let_in_as_before() -> None:
    cast = make_cast()
    cluster = placed(cast)
    acme, _, _ = limited(cast, units=10)
    pod = question(cluster, "llm", "pod", demand(6))

    connection.set_autocommit(False)
    first = together(pod)
    again = while_held(lambda: alone(pod)["code"], lambda: None)

    assert (first, again) == ([1], "allowed_before")
    assert counted(acme) == (0, 6, 0, 0)
    assert drifted() == []


def together_at_last(*pods: PodQuestion) -> list[int]:
    """Ask again where a busy machine kept a counter locked for too long; nothing was written then.

    A circle of locks, and whatever else stops a statement, is raised.
    """
    for _ in range(40):
        try:
            return together(*pods)
        except OperationalError as error:
            if not isinstance(error.__cause__, LockNotAvailable):
                raise
    raise AssertionError("A counter was locked for a second.")


@pytest.mark.usefixtures("committed_db")
def test_statements_that_meet_in_any_order_neither_wait_in_a_circle_nor_lose_a_pod() -> None:
    cast = make_cast()
    cluster = placed(cast)
    limits = limited(cast, units=100_000)
    namespaces = ["llm", "vision", "virus"]

    def ask(worker: int) -> Callable[[], object]:
        def rounds() -> object:
            done = 0
            for turn in range(25):
                order = namespaces[:: 1 if worker % 2 else -1]
                pods = [
                    question(cluster, name, f"{worker}-{turn}-{name}-{number}")
                    for number in range(2)
                    for name in order
                ]
                done += len(together_at_last(*pods))
            return done

        return rounds

    assert at_once(*[ask(worker) for worker in range(6)]) == [150] * 6
    assert [counted(one)[1] for one in limits] == [600, 300, 300]
    assert drifted() == []


@pytest.mark.usefixtures("committed_db")
def test_an_organization_that_is_being_changed_is_left_out_and_not_waited_for() -> None:
    cast = make_cast()
    cluster = placed(cast)
    acme, _, umbrella = limited(cast)

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(quotas_lock_key(%s))", [cast.acme.pk])
        pods = [question(cluster, "llm", "a"), question(cluster, "virus", "b")]
        (numbers,) = at_once(lambda: together(*pods))

    assert numbers == [2]
    assert (counted(acme)[1], counted(umbrella)[1]) == (0, 1)

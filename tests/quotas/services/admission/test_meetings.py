"""Pods that are asked about while somebody else is half way: what stands, and what is answered."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from django.db import connection, connections

from quotas.models import QuotaCounter, Reservation
from tests.quotas.services.admission.test_admit_many import alone, limited, placed, together
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
def test_whose_a_namespace_is_is_read_once(patient: psycopg.Connection, change: str) -> None:
    cast = make_cast()
    cluster = placed(cast)
    acme, llm, umbrella = limited(cast)

    def rebind() -> None:
        if change == "moved":
            patient.execute(
                "UPDATE tenants_namespacebinding SET project_id = %s WHERE namespace = 'llm'",
                [cast.virus.pk],
            )
        else:
            patient.execute("DELETE FROM tenants_namespacebinding WHERE namespace = 'llm'")

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
    again = while_held(lambda: alone(pod)[0], lambda: None)

    assert (first, again) == ([1], "allowed_before")
    assert counted(acme) == (0, 6, 0, 0)
    assert drifted() == []

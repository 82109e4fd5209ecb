"""Anyone who is let in after a change of what is in force was committed was let in under it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction

from quotas.models import QuotaLimit
from quotas.services.limits.changes import lock_counters
from quotas.services.limits.grants import end_grant, grant_units
from quotas.services.limits.limits import set_limit
from quotas.services.limits.suspensions import suspend_tenant
from tenants.domain.actors import system_actor
from tenants.models import Cluster, NamespaceBinding
from tests.quotas.services.admission.test_concurrency import at_once, pods
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.quotas.admitting import ask, counted, demand, drifted
from tests.support.quotas.builders import make_grant, make_limit

pytestmark = pytest.mark.usefixtures("committed_db")
ACTOR = system_actor("tests")
LATER = AT + timedelta(seconds=1)


def stage() -> tuple[Cast, Cluster, QuotaLimit]:
    cast = make_cast()
    cluster = make_cluster("hopper")
    for name, project in (("llm", cast.llm), ("vision", cast.vision)):
        bind(cluster, name, project)
    return cast, cluster, make_limit(cast.acme, units=40)


def lower(limit: QuotaLimit, units: int) -> None:
    set_limit(
        scope="organization",
        organization=limit.organization,
        size="large",
        limit_units=units,
        actor=ACTOR,
        at=AT,
    )


def answer(cluster: Cluster, uid: str) -> str:
    """Ask on a connection of its own that waits for nobody for long."""

    def call() -> object:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '200ms'")
        try:
            return ask(cluster, "llm", uid, demand(2), at=LATER).code.value
        except OperationalError:
            return "waits"

    (reported,) = at_once(call)
    return str(reported)


def test_a_pod_waits_until_a_change_of_what_is_in_force_is_committed() -> None:
    cast, cluster, limit = stage()
    ask(cluster, "llm", "before")
    grant = make_grant(limit, 1)
    changes: list[Callable[[], object]] = [
        lambda: lower(limit, 3),
        lambda: grant_units(limit_id=limit.pk, units=-4, actor=ACTOR, at=AT),
        lambda: end_grant(grant_id=grant.pk, actor=ACTOR, at=LATER),
        lambda: suspend_tenant(organization=cast.acme, reason="Late.", actor=ACTOR, at=AT),
    ]

    reported = []
    for number, change in enumerate(changes):
        with transaction.atomic():
            change()
            reported.append(answer(cluster, f"pod-{number}"))
            transaction.set_rollback(True)

    assert reported == ["waits"] * 4
    assert answer(cluster, "after") == "allowed"


def test_once_a_lowered_limit_is_committed_nothing_above_it_is_let_in() -> None:
    _, cluster, limit = stage()
    at_lowering: list[int] = []

    def change() -> object:
        with transaction.atomic():
            lock_counters(organization_id=limit.organization_id)
            QuotaLimit.objects.filter(pk=limit.pk).update(limit_units=10)
        at_lowering.append(counted(limit)[1])
        return None

    at_once(*pods(cluster, 16), change, *pods(cluster, 16, name="late"))

    assert counted(limit)[1] <= max(10, at_lowering[0])
    assert drifted() == []


def test_a_namespace_that_moves_while_a_pod_waits_counts_where_it_is() -> None:
    cast, cluster, limit = stage()
    other = make_limit(cast.umbrella, units=8)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            lock_counters(organization_id=cast.acme.pk)
            asked = pool.submit(at_once, lambda: ask(cluster).code.value)
            while not waiting():
                pass
            NamespaceBinding.objects.filter(namespace="llm").update(project=cast.virus)
        (reported,) = asked.result(timeout=60)

    assert reported == "allowed"
    assert (counted(limit), counted(other)) == ((0, 0, 0, 0), (0, 1, 0, 0))


def waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
        )
        return bool(cursor.fetchone()[0])

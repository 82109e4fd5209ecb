"""What the sources reported is kept: no row is deleted, and a snapshot is filled only once."""

import psycopg
import pytest
from django.db import connection, transaction
from django.db.models import F
from django.db.utils import DatabaseError

from metering.models import (
    ClaimConsumer,
    NodeRecord,
    OfferedDevice,
    PodAllocation,
    QueuedPod,
    WatchSpan,
)
from tenants.models import Cluster, Project
from tests.support.builders import bind, make_cluster, make_organization, make_project
from tests.support.metering.allocations.states import (
    event,
    lead,
    reported_claim,
    reported_node,
    reported_pod,
    reported_slice,
)
from tests.support.metering.seen import HOUR

MODELS = (PodAllocation, WatchSpan, ClaimConsumer, NodeRecord, QueuedPod, OfferedDevice)
TABLES = [model._meta.db_table for model in MODELS]  # noqa: SLF001 - Django's documented model meta.
LOSSES = [
    statement.format(table)
    for table in TABLES
    for statement in ("DELETE FROM {}", "TRUNCATE {} CASCADE")
]


def watched() -> tuple[Cluster, Project]:
    """Let a watch tell of something in every table."""
    cluster = make_cluster(metered_from=HOUR, is_watched=True)
    project = make_project(make_organization())
    bind(cluster, "team-nlp", project)
    watching = lead(cluster.id)
    watching.list(-60, reported_node())
    watching.list(-60, reported_slice())
    watching.beat(0)
    watching.tell(event(reported_pod(), 5))
    watching.tell(event(reported_claim(consumers=("uid-1",)), 6))
    return cluster, project


def counted() -> list[int]:
    return [model._default_manager.count() for model in MODELS]  # noqa: SLF001 - As above.


@pytest.mark.django_db
@pytest.mark.parametrize("loss", LOSSES)
def test_the_runtime_role_cannot_lose_what_was_reported(loss: str) -> None:
    watched()
    before = counted()
    assert min(before) >= 1

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(loss)

    assert counted() == before


@pytest.mark.parametrize("replication", ["origin", "replica"])
def test_a_superuser_cannot_lose_what_was_reported(
    committed_db: str,  # noqa: ARG001 - What was reported is committed into it.
    superuser_url: str,
    replication: str,
) -> None:
    watched()
    before = counted()

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(f"SET session_replication_role = {replication}")
        for loss in LOSSES:
            with pytest.raises(psycopg.errors.RestrictViolation):
                superuser.execute(loss)

    assert counted() == before


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    [
        {"product": "another"},
        {"project": None},
        {"priority": 99},
        {"priority": None},
        {"controller": "Job/another"},
        {"controller": ""},
    ],
)
def test_a_snapshot_is_not_written_anew(change: dict[str, object]) -> None:
    watched()
    rows = PodAllocation.objects.filter(pod_uid="uid-1")
    before = rows.values().get()

    with pytest.raises(DatabaseError, match="settled at bind"), transaction.atomic():
        rows.update(**change)

    assert rows.values().get() == before


@pytest.mark.django_db
def test_what_was_not_known_at_the_bind_is_filled_once() -> None:
    cluster, project = watched()
    lead(cluster.id).tell(
        event(
            reported_pod(
                "late", namespace="nobody", priority=None, controller="", resource_version="2"
            ),
            7,
        )
    )
    rows = PodAllocation.objects.filter(pod_uid="late")
    row = rows.get()
    assert (row.project, row.priority, row.controller) == (None, None, "")

    assert rows.update(project=project, priority=5, controller="Job/train") == 1

    with pytest.raises(DatabaseError, match="settled at bind"), transaction.atomic():
        rows.update(priority=F("priority") + 1)

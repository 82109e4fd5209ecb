"""The stage of admission's bench: tenants, limits, and workers with connections of their own.

A worker is a process with one connection, which says what the service says to the database. What
it did is returned, so that the run can be added up anew without a counter.
"""

import json
import os
import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from threading import Barrier
from typing import Any, Final

import psycopg

BEGIN: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
TTL_SECONDS: Final = 120
READY_SECONDS_MAX: Final = 120
"""For every process of a run to be there, on a machine busy with other things."""
CLOCK_FACTOR: Final = 20
"""Seconds of the ledger in one of the wall's, so that much expires within a run."""
LOCK_WAIT: Final = "SET lock_timeout = '25ms'"
"""As a batch of the server waits for a counter."""
ATTEMPTS_MAX: Final = 40
"""A second of waiting, at 25 ms an attempt."""
SIZES: Final = ("small", "medium", "large")
PROJECTS_PER_ORGANIZATION: Final = 4
USERS: Final = ("bob", "carol")
ORGANIZATION_UNITS: Final = 60
"""As many that a quarter of the requests is refused: nobody's limit stays far away."""
PROJECT_UNITS_MAX: Final = 30
USER_UNITS: Final = 10
BURST_CLASSES: Final = ["gpu-ledger-burst"]


@dataclass(frozen=True)
class Place:
    """A namespace and its owner."""

    cluster_id: str
    namespace: str
    organization_id: str
    project_id: str


@dataclass(frozen=True)
class Admitted:
    """A pod that was admitted, or asks for admission, and when in the ledger's time."""

    uid: str
    place: Place
    username: str
    size: str
    units: int
    at: datetime


@dataclass
class Reported:
    """What one worker did."""

    admitted: list[Admitted] = field(default_factory=list)
    deleted: set[str] = field(default_factory=set)
    refused: int = 0
    together: int = 0
    """So many of those admitted were let in with others."""
    seconds: list[float] = field(default_factory=list)
    """One per question."""


def build(*, organizations: int) -> list[Place]:
    """Return the namespaces of new tenants; every organization, project and user has limits."""
    from django.contrib.auth.models import User  # noqa: PLC0415 - Django is set up by now.
    from django.db import transaction  # noqa: PLC0415

    from metering.models import ClusterWatch  # noqa: PLC0415
    from quotas.models import LimitScope, QuotaLimit  # noqa: PLC0415
    from quotas.services.limits.changes import open_counter  # noqa: PLC0415
    from tests.support.builders import (  # noqa: PLC0415
        audited,
        bind,
        make_cluster,
        make_organization,
        make_project,
    )

    mark = uuid.uuid4().hex[:6]
    cluster = make_cluster(f"hopper-{mark}", is_watched=True, admission_mode="enforce")
    # The watch stays healthy as long as any bench runs: admitted pods may expire.
    ClusterWatch.objects.create(cluster=cluster, healthy_at=datetime(2100, 1, 1, tzinfo=UTC))
    with audited():
        people = [User.objects.get_or_create(username=name)[0] for name in USERS]
    places = []
    for number in range(organizations):
        organization = make_organization(f"org-{mark}-{number}")
        holders: list[tuple[str, Any, Any, int]] = [
            (LimitScope.ORGANIZATION, None, None, ORGANIZATION_UNITS)
        ]
        for turn in range(PROJECTS_PER_ORGANIZATION):
            project = make_project(organization, f"p-{turn}")
            namespace = f"ns-{number}-{turn}"
            bind(cluster, namespace, project)
            places.append(Place(str(cluster.pk), namespace, str(organization.pk), str(project.pk)))
            holders.append((LimitScope.PROJECT, project, None, PROJECT_UNITS_MAX))
            holders += [(LimitScope.USER, project, person, USER_UNITS) for person in people]
        for scope, project, user, units in holders:
            for size in SIZES:
                limit = QuotaLimit.objects.create(
                    scope=scope,
                    organization=organization,
                    project=project,
                    user=user,
                    size=size,
                    limit_units=units,
                    created_at=BEGIN,
                    changed_at=BEGIN,
                )
                with transaction.atomic():
                    open_counter(limit=limit, at=BEGIN)
    return places


def sweep(at: datetime) -> None:
    """Sweep live usage in batches, as the tick does, on the calling thread's connection."""
    from quotas.services.admission.live_use import sweep_live_use  # noqa: PLC0415 - Django is set up by now.
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - As above.

    sweep_live_use(burst_classes=BURST_CLASSES, actor=system_actor("bench"), at=at)


def ledger_time(begin: float) -> datetime:
    """Return the ledger's time, for a run that began at a wall-clock time."""
    return BEGIN + timedelta(seconds=(time.time() - begin) * CLOCK_FACTOR)


def question(place: Place, *, uid: str, owner: str, size: str, units: int, at: datetime) -> str:
    """Return what the service would ask of the database."""
    return json.dumps(
        {
            "at": at.isoformat(),
            "ttl_seconds": TTL_SECONDS,
            "unbound": "deny",
            "cluster_id": place.cluster_id,
            "namespace": place.namespace,
            "pod_uid": uid,
            "pod_name": uid,
            "controller": "",
            "owner": owner,
            "is_burst": False,
            "is_dry_run": False,
            "demands": [
                {
                    "resource": "nvidia.com/gpu",
                    "size": size,
                    "units": units,
                    "model_groups": ["H100"],
                }
            ],
        }
    )


def ask_at_random(
    url: str, places: list[Place], count: int, begin: float, *, is_mixed: bool
) -> Reported:
    """Ask `count` times for a random pod; mixed with questions of several, deletions and changes.

    Every pod, deletion and change is one time.
    """
    dice = random.Random(os.getpid())  # noqa: S311 - Load, not secrets.
    reported = Reported()
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        while count > 0:
            throw = dice.random() if is_mixed else 1
            count -= 1
            if throw < 0.3 and reported.admitted:
                _delete(connection, dice.choice(reported.admitted), reported, ledger_time(begin))
            elif throw < 0.32:
                _change_limit(connection, dice)
            elif throw < 0.42:
                pods = [_pod(dice, places, ledger_time(begin)) for _ in range(dice.randint(2, 8))]
                _ask_together(connection, pods, reported)
                count -= len(pods) - 1
            else:
                _ask(connection, _pod(dice, places, ledger_time(begin)), reported)
    return reported


def _pod(dice: random.Random, places: list[Place], at: datetime) -> Admitted:
    """Return a pod that may be admitted."""
    place, size, units = dice.choice(places), dice.choice(SIZES), dice.choice((1, 1, 1, 2, 4))
    return Admitted(uuid.uuid4().hex, place, dice.choice(("", *USERS)), size, units, at)


def _question(pod: Admitted) -> str:
    return question(
        pod.place, uid=pod.uid, owner=pod.username, size=pod.size, units=pod.units, at=pod.at
    )


def _ask_together(
    connection: psycopg.Connection[Any], pods: list[Admitted], reported: Reported
) -> None:
    """Admit several in one statement, then the rest one by one."""
    try:
        verdicts = _verdicts(connection, pods)
    except psycopg.OperationalError:
        # A lock on a counter timed out, or PostgreSQL broke a deadlock, which is counted.
        verdicts = [None] * len(pods)
    reported.together += len(pods) - verdicts.count(None)
    for pod, verdict in zip(pods, verdicts, strict=True):
        if verdict is None:
            _ask(connection, pod, reported)
        else:
            reported.admitted.append(pod)


def _verdicts(
    connection: psycopg.Connection[Any], pods: list[Admitted]
) -> list[dict[str, Any] | None]:
    asked = f"[{','.join(map(_question, pods))}]"
    row = connection.execute("SELECT quotas_admit(%s::jsonb)", [asked]).fetchone()
    verdicts: list[dict[str, Any] | None] = [] if row is None else row[0]
    return verdicts


def seconds_of_asking_together(url: str, places: list[Place], count: int) -> list[float]:
    """Ask for `count` pods, eight in a statement; return the seconds of each pod's share."""
    dice = random.Random(os.getpid())  # noqa: S311 - Load, not secrets.
    seconds: list[float] = []
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        connection.execute(LOCK_WAIT)
        while len(seconds) < count:
            pods = [_pod(dice, places, ledger_time(time.time())) for _ in range(8)]
            start = time.perf_counter()
            answered = _ask_until_unlocked(connection, pods)
            spent = time.perf_counter() - start
            if answered < len(pods):
                raise RuntimeError("All fit, and some pods were not answered.")
            seconds += [spent / len(pods)] * len(pods)
    return seconds


def _ask_until_unlocked(connection: psycopg.Connection[Any], pods: list[Admitted]) -> int:
    """Ask a batch again while its counters are locked; return how many it admits."""
    for _ in range(ATTEMPTS_MAX):
        try:
            verdicts = _verdicts(connection, pods)
        except psycopg.errors.LockNotAvailable:
            continue
        return len(pods) - verdicts.count(None)
    raise RuntimeError(f"The counters were locked {ATTEMPTS_MAX} times in a row.")


def _ask(connection: psycopg.Connection[Any], pod: Admitted, reported: Reported) -> None:
    start = time.perf_counter()
    (answer,) = _verdicts(connection, [pod])
    reported.seconds.append(time.perf_counter() - start)
    if answer is not None and answer["code"] == "allowed":
        reported.admitted.append(pod)
    else:
        reported.refused += 1


def _delete(
    connection: psycopg.Connection[Any], pod: Admitted, reported: Reported, at: datetime
) -> None:
    if pod.uid in reported.deleted or at >= pod.at + timedelta(seconds=TTL_SECONDS):
        return
    connection.execute(
        "INSERT INTO metering_queuedpod (cluster_id, pod_uid, namespace, pod_name, requests,"
        " priority_class, owner, created_at, gone_at, reason, defects)"
        " VALUES (%s, %s, %s, %s, '{}', '', '', %s, %s, '', '[]')",
        [pod.place.cluster_id, pod.uid, pod.place.namespace, pod.uid, pod.at, at],
    )
    reported.deleted.add(pod.uid)


def _change_limit(connection: psycopg.Connection[Any], dice: random.Random) -> None:
    connection.execute(
        "UPDATE quotas_quotalimit SET limit_units = %s WHERE id = ("
        " SELECT id FROM quotas_quotalimit WHERE scope = 'project' ORDER BY random() LIMIT 1)",
        [dice.randint(0, PROJECT_UNITS_MAX)],
    )


def update_one_row(url: str, rows: list[str], count: int) -> list[float]:
    """Change one counter `count` times, one of several rows: what no admission can beat."""
    dice = random.Random(os.getpid())  # noqa: S311 - Load, not secrets.
    seconds = []
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        connection.execute("SET synchronous_commit = off")
        for _ in range(count):
            start = time.perf_counter()
            connection.execute(
                "UPDATE quotas_quotacounter SET reserved_units = reserved_units"
                " WHERE limit_id = %s",
                [dice.choice(rows)],
            )
            seconds.append(time.perf_counter() - start)
    return seconds


@dataclass(frozen=True)
class Run:
    """What one process measured, and from when to when, in epoch seconds."""

    seconds: list[float]
    begin: float
    end: float


def _run(ready: Barrier, call: Callable[..., list[float]], given: tuple[Any, ...]) -> Run:
    ready.wait(timeout=READY_SECONDS_MAX)
    begin = time.time()
    return Run(call(*given), begin, time.time())


def side_by_side(call: Callable[..., list[float]], *given: Any, workers: int) -> list[Run]:  # noqa: ANN401 - Whatever the call takes.
    """Run a call in several processes, which begin once all are there."""
    context = get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(workers, mp_context=context) as pool:
        ready = manager.Barrier(workers)
        futures = [pool.submit(_run, ready, call, given) for _ in range(workers)]
        return [future.result() for future in futures]

"""Enforcement: ResourceQuotas for a thousand new namespaces, and the latency of a changed limit.

The simulated API serves HTTPS from a process of its own. The first figure is one tick in one
process. The second goes as in production: a limit is set, the wake-up passes through Valkey to a
Celery worker, and the clock stops when the ResourceQuota's status has the new number. The last one
is how long a deleted ResourceQuota is away beside a running `watch_cluster`.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import (
    ROOT,
    Bound,
    Figure,
    invariant,
    ledger_database,
    measured,
    measurement,
    ratio,
    scaled,
)

if TYPE_CHECKING:
    from quotas.protocols import EnforcementEndpoint, QuotaEnforcer
    from tenants.models import Project

ORGANIZATIONS = scaled(100)
PROJECTS_EACH = 10
NAMESPACES = ORGANIZATIONS * PROJECTS_EACH
APPLY_TO_BARE_MAX = "0.108"
BARE_APPLIES = scaled(50)
"""Namespaces without a tenant, whose quota the enforcer alone writes."""
TICKS_MAX = 5
"""One is enough; a status that lags takes another."""
CHANGES = scaled(100)
LIVE_SECONDS_MAX = 5
"""Promised to the person who changes a limit."""
LIVE_TO_BARE_MAX = "3.4"
DELETIONS = scaled(50)
BACK_SECONDS_MAX = 5
PATIENCE_SECONDS = 30
READY_SECONDS = 60
POLL_SECONDS = 0.05
TOKEN = "bench"  # noqa: S105 - Of a server stopped after a minute.
RESOURCE, KEY = "nvidia.com/gpu", "requests.nvidia.com/gpu"


def run() -> Iterator[Figure]:
    """Serve from one process, enforce from others."""
    from embedded.valkey import EmbeddedValkey  # noqa: PLC0415 - Starts servers.

    with tempfile.TemporaryDirectory(prefix="gpu-ledger-enforce-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        fork = multiprocessing.get_context("fork")
        ours, theirs = fork.Pipe()
        server = fork.Process(target=_serve, args=(folder, theirs))
        server.start()
        valkey = EmbeddedValkey(folder / "valkey")
        valkey.start()
        os.environ |= {"QUOTA_ENFORCER": "kubernetes", "CLUSTER_SECRETS_DIR": name}
        try:
            with ledger_database():
                os.environ["REDIS_URL"] = valkey.url()
                yield from _measure(Path(ours.recv()), folder, ours)
        finally:
            valkey.stop()
            ours.send("stop")
            server.join()


def _measure(kubeconfig: Path, folder: Path, api: Connection) -> Iterator[Figure]:
    from django.conf import settings  # noqa: PLC0415 - Django is set up by now.

    from quotas.adapters import quota_enforcer  # noqa: PLC0415 - As above.
    from quotas.models import EnforcementTarget  # noqa: PLC0415
    from quotas.protocols import EnforcementEndpoint  # noqa: PLC0415
    from quotas.tasks import tick  # noqa: PLC0415

    settings.REDIS_URL = os.environ["REDIS_URL"]
    projects = _make_tenants(kubeconfig)
    applied = EnforcementTarget.objects.filter(state="applied")
    with measured() as watch:
        for _ in range(TICKS_MAX):
            tick(datetime.now(UTC))
            if applied.count() == NAMESPACES:
                break
    assert applied.count() == NAMESPACES
    yield measurement("enforcement.all_namespaces", watch.seconds, "s")
    enforcer = quota_enforcer(settings.QUOTA_ENFORCER)
    endpoint = EnforcementEndpoint("hopper", "", f"kubeconfig:{kubeconfig.name}")
    bare = _apply_bare(enforcer, endpoint)
    yield measurement("enforcement.bare_apply", bare, "s")
    yield ratio(
        "enforcement.one_namespace_to_bare_apply",
        watch.seconds / NAMESPACES / bare,
        Bound.AT_MOST,
        APPLY_TO_BARE_MAX,
    )
    with _program(folder, "worker", WORKER):
        seconds = _change_limits(projects, enforcer, endpoint)
    live = seconds[CHANGES // 2]
    yield measurement("enforcement.changed_limit_live_p50", live, "s")
    yield ratio(
        "enforcement.changed_limit_live_p50_to_bare_apply",
        live / bare,
        Bound.AT_MOST,
        LIVE_TO_BARE_MAX,
    )
    yield invariant(
        "enforcement.changed_limit_live_p99",
        seconds[CHANGES * 99 // 100 - 1],
        "s",
        LIVE_SECONDS_MAX,
        Bound.AT_MOST,
    )
    with _program(folder, "watch", WATCH):
        seconds = _delete_quotas(projects, enforcer, endpoint, api)
    yield measurement("enforcement.deleted_quota_back_p50", seconds[DELETIONS // 2], "s")
    yield invariant(
        "enforcement.deleted_quota_back", seconds[-1], "s", BACK_SECONDS_MAX, Bound.AT_MOST
    )


def _apply_bare(enforcer: "QuotaEnforcer", endpoint: "EnforcementEndpoint") -> Decimal:
    """Return the seconds of one write by the enforcer only: no table, worker or wake-up."""
    from quotas.protocols import DesiredQuota  # noqa: PLC0415 - Django is set up by now.

    with measured() as watch:
        for number in range(BARE_APPLIES):
            enforcer.apply(endpoint, DesiredQuota(f"bare-{number}", {KEY: 8}, generation=1))
    return watch.seconds / BARE_APPLIES


def _make_tenants(kubeconfig: Path) -> "list[Project]":
    """Make organizations, projects, bindings and limits; return the projects."""
    from quotas.models import LimitScope, QuotaLimit  # noqa: PLC0415 - Django is set up by now.
    from tenants.models import (  # noqa: PLC0415 - As above.
        Cluster,
        NamespaceBinding,
        Organization,
        Project,
    )

    at = datetime.now(UTC)
    cluster = Cluster.objects.create(
        slug="hopper",
        name="Hopper",
        credential_reference=f"kubeconfig:{kubeconfig.name}",
        offered_resources=[RESOURCE],
        metered_from=at,
        created_at=at,
    )
    owners = Organization.objects.bulk_create(
        Organization(
            slug=f"org-{number}", name=f"Org {number}", billing_currency="EUR", created_at=at
        )
        for number in range(ORGANIZATIONS)
    )
    projects = Project.objects.bulk_create(
        Project(
            organization=owners[number % ORGANIZATIONS],
            slug=f"team-{number}",
            name=f"Team {number}",
            created_at=at,
        )
        for number in range(NAMESPACES)
    )
    NamespaceBinding.objects.bulk_create(
        NamespaceBinding(
            cluster=cluster,
            namespace=project.slug,
            project=project,
            valid=(at, None),
            created_at=at,
        )
        for project in projects
    )
    QuotaLimit.objects.bulk_create(
        QuotaLimit(
            scope=LimitScope.PROJECT,
            organization_id=project.organization_id,
            project=project,
            size="large",
            limit_units=8,
            created_at=at,
            changed_at=at,
        )
        for project in projects
    )
    return projects


def _change_limits(
    projects: "list[Project]", enforcer: "QuotaEnforcer", endpoint: "EnforcementEndpoint"
) -> list[Decimal]:
    """Set limits one by one; return the seconds until each was applied, shortest first."""
    from quotas.services.limits.limits import set_limit  # noqa: PLC0415 - Django is set up by now.
    from tenants.domain.actors import system_actor  # noqa: PLC0415 - As above.

    taken = []
    # The first one includes the start of the worker and is not counted.
    for number in range(CHANGES + 1):
        project, units = projects[number * 7 % NAMESPACES], 9 + number
        set_limit(
            scope="project",
            organization=project.organization,
            project=project,
            size="large",
            limit_units=units,
            actor=system_actor("bench"),
            at=datetime.now(UTC),
        )
        seconds = _seconds_until(units, project.slug, enforcer, endpoint, is_first=number == 0)
        taken.append(seconds)
    return sorted(taken[1:])


def _delete_quotas(
    projects: "list[Project]",
    enforcer: "QuotaEnforcer",
    endpoint: "EnforcementEndpoint",
    api: Connection,
) -> list[Decimal]:
    """Delete quotas one by one; return the seconds until each was back, shortest first."""
    taken = []
    # The first one includes the start of the watch and is not counted.
    for number in range(DELETIONS + 1):
        namespace = projects[-1 - number % NAMESPACES].slug
        units = enforcer.read(endpoint, namespace).hard[KEY]
        api.send(namespace)
        assert api.recv() == namespace
        seconds = _seconds_until(units, namespace, enforcer, endpoint, is_first=number == 0)
        taken.append(seconds)
    return sorted(taken[1:])


def _seconds_until(
    units: int,
    namespace: str,
    enforcer: "QuotaEnforcer",
    endpoint: "EnforcementEndpoint",
    *,
    is_first: bool,
) -> Decimal:
    begin = time.monotonic_ns()
    patience = READY_SECONDS if is_first else PATIENCE_SECONDS
    while enforcer.read(endpoint, namespace).hard.get(KEY) != units:
        time.sleep(POLL_SECONDS)
        assert time.monotonic_ns() - begin < patience * 1_000_000_000, namespace
    return Decimal(time.monotonic_ns() - begin) / 1_000_000_000


WORKER = (
    *("-m", "celery", "-A", "config", "worker", "-c", "2"),
    *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
)
"""The worker of production, without a beat: only wake-ups make it work."""
WATCH = ("manage.py", "watch_cluster", "--all")


@contextmanager
def _program(folder: Path, name: str, arguments: Sequence[str]) -> Iterator[None]:
    """Run a program of production beside the bench."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _serve(folder: Path, control: Connection) -> None:
    """Serve a cluster with all the namespaces and no quota; then delete quotas as named."""
    from simulator.kubernetes_api import (  # noqa: PLC0415 - A child's.
        KubernetesAPI,
    )
    from simulator.kubernetes_api.resources import (  # noqa: PLC0415
        NAMESPACES as NAMESPACES_RESOURCE,
    )
    from simulator.kubernetes_api.resources import QUOTAS  # noqa: PLC0415

    with KubernetesAPI(folder, tokens={TOKEN: "system:admin"}) as api:
        names = [f"team-{number}" for number in range(NAMESPACES)]
        names += [f"bare-{number}" for number in range(BARE_APPLIES)]
        for number, name in enumerate(names):
            body: dict[str, Any] = {
                "metadata": {"name": name, "uid": f"00000000-0000-4000-8000-{number:012d}"},
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            }
            api.store.put(NAMESPACES_RESOURCE, ("", name), body)
        control.send(str(api.kubeconfig(folder / "kubeconfig")))
        while (namespace := control.recv()) != "stop":
            api.store.remove(QUOTAS, (namespace, "gpu-ledger"))
            control.send(namespace)

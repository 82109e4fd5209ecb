"""What the database has of each active cluster, and the check of its watch."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from config.doctor.findings import CheckResult, ok, problem, warning
from metering.models import ClusterWatch
from metering.selectors.collection.gauges import oldest_due_window
from tenants.models import Cluster, NamespaceBinding
from tenants.models.organization import LifecycleState

PAGE: Final = "docs/how-to/connect-a-cluster.md"
HEARTBEAT_AGE_MAX: Final = timedelta(seconds=120)
"""Twelve heartbeats; the alert of the documentation begins here too."""
REPORTED_SECONDS: Final = 30
REFUSED_SECONDS: Final = 300
ERROR_LENGTH_MAX: Final = 160


@dataclass(frozen=True)
class ClusterFacts:
    """One cluster, with all that checks outside of the database's thread need.

    Attributes:
        namespaces: Bound to projects now.
        backlog: How long ago the oldest hour fell due that is not sealed.
        watch: None where no process ever watched it.
    """

    cluster: Cluster
    namespaces: tuple[str, ...]
    backlog: timedelta
    watch: ClusterWatch | None


def active_clusters(*, at: datetime) -> list[ClusterFacts]:
    """Return the active clusters by slug; in a constant number of statements."""
    due = oldest_due_window(at=at)
    watches = {watch.cluster_id: watch for watch in ClusterWatch.objects.all()}
    bound: dict[object, list[str]] = {}
    rows = NamespaceBinding.objects.filter(valid__contains=at).order_by("namespace")
    for cluster_id, namespace in rows.values_list("cluster_id", "namespace"):
        bound.setdefault(cluster_id, []).append(namespace)
    return [
        ClusterFacts(
            cluster=cluster,
            namespaces=tuple(bound.get(cluster.pk, ())),
            backlog=timedelta(seconds=due.get(cluster.slug, 0)),
            watch=watches.get(cluster.pk),
        )
        for cluster in Cluster.objects.filter(state=LifecycleState.ACTIVE).order_by("slug")
    ]


def check_watch(facts: ClusterFacts, *, at: datetime) -> Iterator[CheckResult]:
    """Yield whether a process watches the cluster's API now."""
    if not facts.cluster.is_watched:
        yield ok("watch", "The cluster is not watched; Prometheus alone is metered.")
        return
    start = f"Start `manage.py watch_cluster --all`, which also watches {facts.cluster.slug}."
    seen_at = facts.watch.healthy_at if facts.watch else None
    if seen_at is None:
        yield problem("watch", "No process has watched its API yet.", start, PAGE)
        return
    age = at - seen_at
    if age > HEARTBEAT_AGE_MAX:
        error = " ".join((facts.watch.last_error if facts.watch else "").split())
        why = f" Its last error: {error[:ERROR_LENGTH_MAX]}" if error else ""
        seconds = int(age.total_seconds())
        yield problem("watch", f"The last heartbeat is {seconds:,} s old.{why}", start, PAGE)
        return
    yield ok("watch", f"Its API is watched; the last heartbeat is {age.seconds} s old.")


def clock_result(check: str, theirs: datetime | None, *, at: datetime) -> CheckResult:
    """Return how far another server's clock is off this process'.

    Args:
        check: Name of the finding.
        theirs: In whole seconds, with the time that the answer took.
        at: By this process, after the answer.
    """
    if theirs is None:
        return warning(
            check,
            "Its answers have no Date: its clock is not known.",
            "Let the proxy before it pass the header Date on.",
            PAGE,
        )
    seconds = int((theirs - at).total_seconds())
    if abs(seconds) <= REPORTED_SECONDS:
        return ok(check, f"Its clock and ours differ by {abs(seconds)} s.")
    side = "ahead of" if seconds > 0 else "behind"
    state = problem if abs(seconds) > REFUSED_SECONDS else warning
    return state(
        check,
        f"Its clock is {abs(seconds):,} s {side} ours.",
        "Let NTP keep the clocks of all hosts.",
        PAGE,
    )

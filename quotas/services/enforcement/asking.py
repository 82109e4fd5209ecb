"""Parallel calls to clusters for many namespaces, each with its result.

The threads do not use the database; the caller writes the results.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from celery.exceptions import SoftTimeLimitExceeded

from quotas.models import EnforcementTarget
from quotas.protocols import DesiredQuota, EnforcementEndpoint
from tenants.domain.actors import Actor
from tenants.models import Cluster
from tenants.services.audit import note_refused_use

SIDE_BY_SIDE: Final = 16
"""Parallel calls of one worker: each waits for its controller, up to 3 s."""
WITH_TENANT: Final = ("cluster", "project", "project__organization")
"""Related rows to load with a target, so that each needs no further query."""
Asked = TypeVar("Asked")
Live = TypeVar("Live")


@dataclass(frozen=True)
class ClusterAnswer(Generic[Asked, Live]):
    """A cluster's result for one item: its state now, or the error."""

    asked: Asked
    live: Live | None = None
    error: Exception | None = None


def ask_all(
    questions: Sequence[Asked],
    ask: Callable[[Asked], Live],
    *,
    slug_of: Callable[[Asked], str],
    actor: Actor,
    at: datetime,
) -> Iterator[ClusterAnswer[Asked, Live]]:
    """Yield the clusters' results as they arrive; a credential refused at use is audited.

    Args:
        questions: The items to call about.
        ask: Calls a cluster; in a thread, without database access.
        slug_of: Returns the cluster of a question.
        actor: The account that asks.
        at: When, UTC.
    """
    for answer in _answers(questions, ask):
        note_refused_use(slug=slug_of(answer.asked), error=answer.error, actor=actor, at=at)
        yield answer


def _answers(
    questions: Sequence[Asked], ask: Callable[[Asked], Live]
) -> Iterator[ClusterAnswer[Asked, Live]]:
    """Yield results as they arrive; a single call runs in this thread."""
    if len(questions) <= 1:
        for question in questions:
            yield _answer(question, ask)
        return
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, len(questions))) as pool:
        asked = [pool.submit(_answer, question, ask) for question in questions]
        for future in as_completed(asked):
            yield future.result()


def _answer(question: Asked, ask: Callable[[Asked], Live]) -> ClusterAnswer[Asked, Live]:
    try:
        return ClusterAnswer(question, live=ask(question))
    except SoftTimeLimitExceeded:
        # The task's time is over, which is no answer of a cluster: the task fails.
        raise
    except Exception as error:  # noqa: BLE001 - One item of a sweep: logged, not swallowed.
        return ClusterAnswer(question, error=error)


def desired_of(target: EnforcementTarget, *, is_forced: bool = False) -> DesiredQuota:
    """Return what a target should say, as an enforcer takes it."""
    return DesiredQuota(
        namespace=target.namespace,
        hard=target.desired_hard,
        generation=target.desired_generation,
        burst_hard=target.desired_burst,
        cohort=target.project.organization.slug,
        is_held=target.is_held,
        is_forced=is_forced,
    )


def endpoint_of(target: EnforcementTarget) -> EnforcementEndpoint:
    """Return a target's cluster, as an enforcer takes it."""
    return endpoint_of_cluster(target.cluster)


def endpoint_of_cluster(cluster: Cluster) -> EnforcementEndpoint:
    """Return a cluster, as an enforcer takes it."""
    return EnforcementEndpoint(
        slug=cluster.slug,
        kubernetes_url=cluster.kubernetes_url,
        credential_reference=cluster.credential_reference,
        quota_target=cluster.quota_target,
    )

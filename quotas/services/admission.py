"""Admission: a pod asks, one call to the database answers, and what is let in is counted.

The seam with the webhook is `admit` and the values of `quotas.domain.admission`; both are stable.
Whether a limit binds, in which order counters are locked and how a dry run is taken back is told
in docs/adr/0020, why pods that plainly fit are let in together in docs/adr/0027. It leaves no
audit entry: the reservations are the trail (docs/adr/0020).
"""

import json
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from quotas.domain.admission import PodQuestion, Verdict, VerdictCode, verdict_of
from quotas.domain.quantities import UNITS_MAX

LetIn = Callable[[str], bool]
"""Takes a question as JSON; whether it was let in with others. If not, nothing is decided."""


def admit(
    *,
    question: PodQuestion,
    at: datetime,
    ttl_seconds: int,
    unbound: str,
    let_in: LetIn | None = None,
) -> Verdict:
    """Let a pod in and count it, or say why not: all its demands or none, in one statement.

    Asking again for the same pod counts nothing again. A dry run answers the same and writes
    nothing. In a cluster that only warns, the pod is counted whatever the verdict says. What no pod
    can have is refused before the database is asked, and never counted.

    Args:
        question: What the pod asks; it has at least one demand.
        at: When, UTC: decides which bindings, grants and suspensions hold.
        ttl_seconds: How long it is counted before the watch has seen the pod.
        unbound: "allow" lets a pod into a namespace that no project has; "deny" refuses it.
        let_in: Asks with others who ask at the same time; what it leaves out asks by itself.

    Raises:
        django.db.OperationalError: The database is away, or a lock or the statement took longer
            than the connection allows; nothing was counted then.
    """
    if any(demand.units > UNITS_MAX for demand in question.demands):
        return Verdict(VerdictCode.DEMAND_TOO_LARGE)
    asked = question_json(question, at=at, ttl_seconds=ttl_seconds, unbound=unbound)
    if let_in is not None and not question.is_dry_run and let_in(asked):
        return Verdict(VerdictCode.ALLOWED)
    with connection.cursor() as cursor:
        cursor.execute("SELECT quotas_admit(%s::jsonb)", [asked])
        (answer,) = cursor.fetchone()
    return verdict_of(json.loads(answer) if isinstance(answer, str) else answer)


def admit_together(*, questions: Sequence[str], using: BaseDatabaseWrapper) -> Collection[int]:
    """Let the pods in that plainly fit, in one statement; see docs/adr/0027.

    Args:
        questions: As `question_json` returns them; none is a dry run.
        using: The connection to ask on.

    Returns:
        The numbers of those that were let in and counted, from 1. The others are undecided.

    Raises:
        django.db.Error: Nothing was counted, unless the answer alone was lost.
    """
    with using.cursor() as cursor:
        cursor.execute("SELECT quotas_admit_many(%s::jsonb)", [f"[{','.join(questions)}]"])
        (numbers,) = cursor.fetchone()
    return frozenset(numbers)


def question_json(question: PodQuestion, *, at: datetime, ttl_seconds: int, unbound: str) -> str:
    """Return a question as the functions of the database take it; see `admit`."""
    return json.dumps(
        {
            "at": at.isoformat(),
            "ttl_seconds": ttl_seconds,
            "unbound": unbound,
            "cluster_id": str(question.cluster_id),
            "namespace": question.namespace,
            "pod_uid": question.pod_uid,
            "pod_name": question.pod_name,
            "controller": question.controller,
            "owner": question.owner,
            "is_burst": question.is_burst,
            "is_dry_run": question.is_dry_run,
            "demands": [
                {
                    "resource": demand.resource,
                    "size": demand.size.value,
                    "units": demand.units,
                    "model_groups": list(demand.model_groups),
                }
                for demand in question.demands
            ],
        }
    )

"""Admission: a pod asks, one call to the database answers, and what is let in is counted.

The seam with the webhook is `admit` and the values of `quotas.domain.admission`; both are stable.
Whether a limit binds, in which order counters are locked and how a dry run is taken back is told
in docs/adr/0020, why pods that plainly fit are let in together in docs/adr/0027. It leaves no
audit entry: the reservations are the trail (docs/adr/0020).
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec
import psycopg
from django.db import connection

from quotas.domain.admission import PodQuestion, Verdict, VerdictCode, verdict_of
from quotas.domain.quantities import UNITS_MAX

CHECK_MILLISECONDS = 100
"""How often a statement that runs looks whether its connection was cut: it then undoes its work."""


def admit(
    *,
    question: PodQuestion,
    at: datetime,
    ttl_seconds: int,
    unbound: str,
    deadline_milliseconds: int | None = None,
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
        deadline_milliseconds: How long the question may take; the ledger gives up before. None for
            as long as the connection's role may.

    Raises:
        django.db.OperationalError: The database is away, or a lock or the statement took too long;
            nothing was counted then.
    """
    if _is_too_large(question):
        return Verdict(VerdictCode.DEMAND_TOO_LARGE)
    asked = question_json(question, at=at, ttl_seconds=ttl_seconds, unbound=unbound)
    with connection.cursor() as cursor:
        statement = "SELECT quotas_admit(%s::jsonb)"
        if deadline_milliseconds is not None:
            statement = _limited(statement, deadline_milliseconds)
        cursor.execute(statement, [asked])
        cursor.set_result(-1)
        (answer,) = cursor.fetchone()
    return verdict_of(json.loads(answer) if isinstance(answer, str) else answer)


def may_be_together(question: PodQuestion) -> bool:
    """Whether a question may be asked with others: dry runs and what is too large may not."""
    return not (question.is_dry_run or _is_too_large(question))


def _is_too_large(question: PodQuestion) -> bool:
    return any(demand.units > UNITS_MAX for demand in question.demands)


async def admit_together(
    *, questions: Sequence[str], using: psycopg.AsyncConnection, deadline_milliseconds: int
) -> Collection[int]:
    """Let the pods in that plainly fit, in one statement; see docs/adr/0027.

    Args:
        questions: As `question_json` returns them, of those that may be asked together.
        using: The connection to ask on; it commits by itself, and puts values in on our side.
        deadline_milliseconds: As of `admit`.

    Returns:
        The numbers of those that were let in and counted, from 1. The others are undecided.

    Raises:
        psycopg.Error: Nothing was counted, unless the answer alone was lost.
    """
    statement = _limited("SELECT quotas_admit_many(%s::jsonb)", deadline_milliseconds)
    cursor = await using.execute(statement, [f"[{','.join(questions)}]"])
    await cursor.set_result(-1)
    row = await cursor.fetchone()
    return frozenset(row[0] if row is not None else ())


def _limited(statement: str, deadline_milliseconds: int) -> str:
    """Return a statement that gives up before its deadline: one message, one transaction.

    So what is answered as undecided is not counted afterwards. Limits of the session would be met
    by a stranger behind a pooler; see docs/adr/0029.
    """
    limits = {
        "lock_timeout": deadline_milliseconds // 2,
        "statement_timeout": deadline_milliseconds * 3 // 4,
        "client_connection_check_interval": CHECK_MILLISECONDS,
    }
    settings = "".join(f"SET LOCAL {name} = {value};" for name, value in limits.items())
    return settings + statement


def question_json(question: PodQuestion, *, at: datetime, ttl_seconds: int, unbound: str) -> str:
    """Return a question as the functions of the database take it; see `admit`."""
    return msgspec.json.encode(
        {
            "at": at,
            "ttl_seconds": ttl_seconds,
            "unbound": unbound,
            "cluster_id": question.cluster_id,
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
                    "size": demand.size,
                    "units": demand.units,
                    "model_groups": demand.model_groups,
                }
                for demand in question.demands
            ],
        }
    ).decode()

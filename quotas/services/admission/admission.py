"""Admission: the statement that decides one pod or a batch, and its questions as JSON."""

import json
from collections.abc import Sequence
from datetime import datetime

import msgspec
import psycopg
from django.db import connection

from quotas.domain.admission.pod_fields import UNITS_MAX
from quotas.domain.admission.values import AdmissionVerdict, PodQuestion, VerdictCode, verdict_of

STATEMENT = "SELECT quotas_admit(%s::jsonb)"
BATCH_LOCK_MILLISECONDS = 25
"""How long a batch waits for a lock; the pods of one that waits longer are asked one by one."""
CHECK_MILLISECONDS = 100
"""How often a statement that runs looks whether its connection was cut: it then undoes its work."""


def admit(
    *,
    question: PodQuestion,
    at: datetime,
    ttl_seconds: int,
    unbound: str,
    deadline_milliseconds: int | None = None,
) -> AdmissionVerdict:
    """Let a pod in and count it, or say why not: all its demands or none, in one statement.

    Repeated calls for the same pod count it once. A dry run returns the same and writes nothing. In
    a cluster that only warns, the pod is counted whatever the verdict. Impossible requests are
    denied without a query, and never counted.

    Args:
        question: The pod's request; it has at least one demand.
        at: When, UTC: decides which bindings, grants and suspensions hold.
        ttl_seconds: How long it is counted before the watch has seen the pod.
        unbound: "allow" lets a pod into a namespace that no project has; "deny" refuses it.
        deadline_milliseconds: How long the question may take; the ledger gives up before. None for
            as long as the connection's role may.

    Raises:
        django.db.OperationalError: The database is away, or a lock or the statement took too long;
            nothing was counted then.
    """
    if is_too_large(question):
        return AdmissionVerdict(VerdictCode.DEMAND_TOO_LARGE)
    asked = question_json(question, at=at, ttl_seconds=ttl_seconds, unbound=unbound)
    with connection.cursor() as cursor:
        statement = STATEMENT
        if deadline_milliseconds is not None:
            statement = _limited(statement, deadline_milliseconds, deadline_milliseconds // 2)
        cursor.execute(statement, [f"[{asked}]"])
        cursor.set_result(-1)
        (answer,) = cursor.fetchone()
    (verdict,) = json.loads(answer) if isinstance(answer, str) else answer
    return verdict_of(verdict)


def is_too_large(question: PodQuestion) -> bool:
    """Whether a request is denied without a query."""
    return any(demand.units > UNITS_MAX for demand in question.demands)


async def admit_batch(
    *, questions: Sequence[str], using: psycopg.AsyncConnection, deadline_milliseconds: int
) -> Sequence[AdmissionVerdict | None]:
    """Admit or deny pods in one statement; see `admit` and docs/adr/0027.

    Args:
        questions: From `question_json`.
        using: The connection; in autocommit, with client-side binding.
        deadline_milliseconds: As of `admit`.

    Returns:
        The verdicts, in order. Of several pods, one that is not admitted has None: it is not
        decided, and to be asked alone.

    Raises:
        psycopg.Error: Nothing was counted, unless the answer alone was lost.
    """
    statement = _limited(STATEMENT, deadline_milliseconds, BATCH_LOCK_MILLISECONDS)
    cursor = await using.execute(statement, [f"[{','.join(questions)}]"])
    await cursor.set_result(-1)
    ((verdicts,),) = await cursor.fetchall()
    return [None if verdict is None else verdict_of(verdict) for verdict in verdicts]


def _limited(statement: str, deadline_milliseconds: int, lock_milliseconds: int) -> str:
    """Return a statement that gives up before its deadline: one message, one transaction.

    So what is answered as undecided is not counted afterwards. Limits of the session would be met
    by a stranger behind a pooler; see docs/adr/0029.
    """
    limits = {
        "lock_timeout": lock_milliseconds,
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

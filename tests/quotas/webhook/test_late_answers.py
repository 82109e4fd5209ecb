"""A ledger that answers too late: what was reported to be undecided is not counted afterwards."""

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.db import transaction

from quotas.models import Reservation
from quotas.services.limits.changes import open_counter
from quotas.webhook import answers
from quotas.webhook.guard import Guard
from tenants.models import Cluster
from tests.quotas.webhook.conftest import Webhooks, make_node
from tests.support.builders import AT, bind, make_cluster, make_organization, make_project
from tests.support.quotas.builders import make_limit
from tests.support.quotas.connecting import connected_as_admission, is_given_up
from tests.support.quotas.reviews import pod

HURRIED, UNHURRIED = 1, 9
"""Deadlines in seconds; the ledger waits for a lock half as long."""
LOCKED = "LOCK TABLE quotas_quotacounter IN ACCESS EXCLUSIVE MODE"


@pytest.fixture
def hopper(committed_db: str) -> Cluster:
    """Return a cluster that refuses while undecided, with two Large for team-llm."""
    assert committed_db
    cluster = make_cluster(is_watched=True, admission_mode="enforce", admission_on_failure="deny")
    make_node(cluster)
    acme = make_organization()
    llm = make_project(acme)
    bind(cluster, "team-llm", llm)
    with transaction.atomic():
        open_counter(limit=make_limit(acme, llm, units=2), at=AT)
    return cluster


@pytest.fixture
def cut_after(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[float], None]]:
    """Return what sets when our side cuts the connection, in seconds."""
    guards: list[Guard] = []

    def cutting(seconds: float) -> None:
        guards.append(Guard(int(seconds * 1_000_000_000), time.monotonic_ns))
        monkeypatch.setattr(answers, "guard", lambda: guards[-1])

    yield cutting
    for guard in guards:
        guard.stop()
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("deadline_seconds", "cut_seconds"),
    [(HURRIED, HURRIED), (UNHURRIED, 0.2)],
    ids=["the_ledger_gives_up_first", "our_side_cuts_first"],
)
def test_what_is_answered_as_undecided_is_not_counted_afterwards(
    webhooks: Webhooks,
    hopper: Cluster,
    superuser_url: str,
    cut_after: Callable[[float], None],
    deadline_seconds: int,
    cut_seconds: float,
) -> None:
    """The lock goes only after the ledger gave up: anyone who still waited for it would write."""
    cut_after(cut_seconds)

    with connected_as_admission(deadline_seconds), psycopg.connect(superuser_url) as holding:
        assert webhooks.admit(pod(0)).reason == "no_gpus"
        holding.execute(LOCKED)
        answer = webhooks.admit(pod(1))
        has_ended = is_given_up(superuser_url)
        holding.rollback()

    assert hopper.admission_on_failure == "deny"
    assert (answer.is_allowed, answer.code, answer.reason) == (False, 503, "undecided_refused")
    assert has_ended
    assert Reservation.objects.count() == 0


@pytest.mark.usefixtures("hopper")
def test_a_ledger_that_answers_in_time_decides_and_counts(webhooks: Webhooks) -> None:
    with connected_as_admission(HURRIED):
        answer = webhooks.admit(pod(1))

    assert (answer.is_allowed, answer.reason) == (True, "allowed")
    assert Reservation.objects.count() == 1

"""Threads of the door ask together on one connection, and each by itself where that fails."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from quotas.domain.admission import Verdict
from quotas.models import QuotaLimit, Reservation
from quotas.services.admission import admit, admit_together
from quotas.services.counters import open_counter
from quotas.webhook import together as module
from quotas.webhook import views
from quotas.webhook.together import NotConnectedError, Together
from tenants.models import Cluster, Project
from tests.builders import AT, bind, make_cluster
from tests.cast import make_cast
from tests.quotas.admitting import TTL_SECONDS, counted, demand, drifted, question
from tests.quotas.builders import make_limit
from tests.quotas.reviews import pod
from tests.quotas.services.test_admission_concurrency import at_once
from tests.quotas.webhook.conftest import Doors

DEADLINE_NANOSECONDS = 5_000_000_000


@pytest.fixture
def place(committed_db: str) -> tuple[Cluster, QuotaLimit]:
    """Return a cluster, and the limit of all its pods."""
    assert committed_db
    cast, cluster = make_cast(), make_cluster("hopper")
    for name, project in (("llm", cast.llm), ("vision", cast.vision)):
        bind(cluster, name, project)
    limit = make_limit(cast.acme, units=1_000)
    with transaction.atomic():
        open_counter(limit=limit, at=AT)
    return cluster, limit


@pytest.fixture
def both() -> Iterator[Together]:
    """Return what asks together."""
    asks = Together(DEADLINE_NANOSECONDS, time.monotonic_ns)
    yield asks
    asks.stop()


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many pods each statement carried that was decided together."""
    carried: list[int] = []

    def noting(*, questions: Sequence[str], using: BaseDatabaseWrapper) -> Collection[int]:
        numbers = admit_together(questions=questions, using=using)
        carried.append(len(numbers))
        return numbers

    monkeypatch.setattr(module, "admit_together", noting)
    return carried


def asking(asks: Together, cluster: Cluster, uid: str, units: int = 1) -> Callable[[], Verdict]:
    return lambda: admit(
        question=question(cluster, "llm" if len(uid) % 2 else "vision", uid, demand(units)),
        at=AT,
        ttl_seconds=TTL_SECONDS,
        unbound="deny",
        let_in=asks.let_in,
    )


def codes(answers: list[object]) -> list[str]:
    return [str(answer.code) for answer in answers if isinstance(answer, Verdict)]


def test_every_pod_is_let_in_and_counted_once(
    place: tuple[Cluster, QuotaLimit], both: Together, statements: list[int]
) -> None:
    cluster, limit = place

    answers = at_once(*[asking(both, cluster, f"pod-{number}") for number in range(48)])

    assert codes(answers) == ["allowed"] * 48
    assert counted(limit) == (0, 48, 0, 0)
    assert sum(statements) == 48
    assert len(statements) < 48
    assert drifted() == []


def test_of_64_for_the_last_unit_exactly_one_is_let_in(
    place: tuple[Cluster, QuotaLimit], both: Together
) -> None:
    cluster, limit = place
    QuotaLimit.objects.update(limit_units=1)

    answers = at_once(*[asking(both, cluster, f"pod-{number}") for number in range(64)])

    assert sorted(codes(answers)) == ["allowed"] + ["limit_reached"] * 63
    assert counted(limit) == (0, 1, 0, 0)
    assert Reservation.objects.count() == 1


def test_limits_that_fill_up_are_filled_to_the_last_unit(
    place: tuple[Cluster, QuotaLimit], both: Together
) -> None:
    cluster, limit = place
    QuotaLimit.objects.update(limit_units=30)

    answers = at_once(*[asking(both, cluster, f"pod-{number}") for number in range(48)])

    assert codes(answers).count("allowed") == 30
    assert counted(limit) == (0, 30, 0, 0)
    assert drifted() == []


def test_one_pod_that_is_asked_by_many_counts_once(
    place: tuple[Cluster, QuotaLimit], both: Together
) -> None:
    cluster, limit = place

    answers = at_once(*[asking(both, cluster, "pod-1")] * 16)

    assert sorted(codes(answers)) == ["allowed"] + ["allowed_before"] * 15
    assert counted(limit) == (0, 1, 0, 0)


def test_a_connection_that_was_ended_is_replaced(
    place: tuple[Cluster, QuotaLimit],
    both: Together,
    statements: list[int],
    superuser_url: str,
) -> None:
    cluster, limit = place
    assert asking(both, cluster, "pod-1")().is_allowed

    with psycopg.connect(superuser_url, autocommit=True) as superuser:
        superuser.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            " AND query LIKE '%%quotas_admit_many%%'"
        )

    assert asking(both, cluster, "pod-2")().is_allowed
    assert statements == [1, 1]
    assert counted(limit) == (0, 2, 0, 0)


def test_counters_that_somebody_holds_are_waited_for_by_each_alone(
    place: tuple[Cluster, QuotaLimit], both: Together, statements: list[int]
) -> None:
    cluster, limit = place

    def held() -> object:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '300ms'")
        with pytest.raises(OperationalError):
            asking(both, cluster, "pod-1")()
        return None

    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE quotas_quotacounter IN ACCESS EXCLUSIVE MODE")
        at_once(held)

    assert statements == []
    assert asking(both, cluster, "pod-1")().code == "allowed"
    assert counted(limit) == (0, 1, 0, 0)


def test_a_statement_that_is_refused_leaves_each_to_ask_alone(
    place: tuple[Cluster, QuotaLimit], both: Together, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, limit = place

    def refuse(**_: object) -> object:
        raise OperationalError("no")

    monkeypatch.setattr(module, "admit_together", refuse)
    answers = at_once(*[asking(both, cluster, f"pod-{number}") for number in range(8)])

    assert codes(answers) == ["allowed"] * 8
    assert counted(limit) == (0, 8, 0, 0)


def test_only_the_admission_server_asks_together(settings: object) -> None:
    assert module.let_in() is None
    settings.ADMISSION_TOGETHER = True  # type: ignore[attr-defined] # pytest-django's own.

    asks = module.let_in()

    assert asks is not None
    assert asks == module.let_in()


def test_a_ledger_that_takes_no_connection_is_tried_once(
    place: tuple[Cluster, QuotaLimit], both: Together, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, _ = place
    tried: list[int] = []

    def refuse(_: object) -> None:
        tried.append(1)
        raise OperationalError("no route")

    monkeypatch.setattr(BaseDatabaseWrapper, "connect", refuse)
    with pytest.raises(NotConnectedError, match="no route"):
        asking(both, cluster, "pod-1")()

    assert tried == [1]


@pytest.mark.django_db
def test_in_a_cluster_that_only_warns_each_pod_is_asked_by_itself(
    llm: Project, doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert llm.slug
    asked: list[str] = []

    def let_in(question: str) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("quotas.webhook.pods.let_in", lambda: let_in)
    doors.admit(pod())
    assert len(asked) == 1
    Cluster.objects.update(admission_mode="warn")
    views.FACTS.forget()
    doors.admit(pod())

    assert len(asked) == 1

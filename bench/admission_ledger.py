"""Admission ledger: the last unit, 100,000 random steps, and pods a second against one UPDATE.

Eight processes, each with a connection of its own, admit single pods and batches, delete
pods and change limits at the same time, while the ledger is swept every second; then all counters
are recomputed from what each process did. Rates are reported for one hot organization, where all
pods update one row, and for fifty; for pods admitted one by one, and eight in a statement.
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from multiprocessing import get_context
from typing import Any, Final

import psycopg

from bench import admission_stage as stage
from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measurement,
    ratio,
    row_sizes,
    scaled,
)
from embedded.programs import log_tail

CONNECTIONS: Final = 8
RATE_CONNECTIONS: Final = scaled(CONNECTIONS, least=2)
"""No rate is judged in a smoke run, and each is a process that takes a second to begin."""
LAST_UNIT_REQUESTS: Final = 64
STEPS: Final = scaled(100_000)
RATE_QUESTIONS: Final = scaled(2_000)
"""Of each process; warm after a hundred."""
UPDATE_RATIO_MIN: Final = {
    ("admissions", "hot"): "0.09",
    ("batches", "hot"): "0.3",
    ("admissions", "fifty"): "0.09",
    ("batches", "fifty"): "0.31",
}
"""One admission reads three counters, writes two tables and answers JSON; the UPDATE is one."""
SWEEP_EVERY_SECONDS: Final = 1
LOG_CHARACTERS_MAX: Final = 50_000


def run() -> Iterator[Figure]:
    """Yield the figures of admission's ledger."""
    with ledger_database() as server:
        import os  # noqa: PLC0415 - The URL is there by now.

        url = os.environ["DATABASE_URL"]
        yield _last_unit(url)
        for figure in _random_steps(url):
            if not figure.is_ok:
                # Which statements waited for each other is in there.
                print(log_tail(server.log, characters_max=LOG_CHARACTERS_MAX), flush=True)
            yield figure
        yield from _rates(url)
        yield from row_sizes("quotas_reservation")


def _last_unit(url: str) -> Figure:
    place = stage.build(organizations=1)[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE quotas_quotalimit SET limit_units = 1 WHERE project_id IS NULL")

    def ask(number: int) -> bool:
        asked = stage.question(
            place, uid=f"last-{number}", owner="", size="large", units=1, at=stage.BEGIN
        )
        with psycopg.connect(url, autocommit=True) as own:
            row = own.execute("SELECT quotas_admit(%s::jsonb)", [f"[{asked}]"]).fetchone()
        return bool(row and row[0][0]["code"] == "allowed")

    with ThreadPoolExecutor(LAST_UNIT_REQUESTS) as pool:
        admitted = sum(pool.map(ask, range(LAST_UNIT_REQUESTS)))
    return invariant("last_unit_admitted", admitted, "pods", 1)


def _random_steps(url: str) -> Iterator[Figure]:
    """Run all steps while sweeping, then compare every counter with what the workers did."""
    places = stage.build(organizations=10)
    begin = time.time()
    over = 0
    with ProcessPoolExecutor(CONNECTIONS, mp_context=get_context("spawn")) as pool:
        given = (url, places, STEPS // CONNECTIONS, begin)
        runs = [pool.submit(stage.ask_at_random, *given, is_mixed=True) for _ in range(CONNECTIONS)]
        with psycopg.connect(url, autocommit=True) as connection:
            while not all(run.done() for run in runs):
                _tick(connection, stage.ledger_time(begin))
                over = max(over, _over_admitted(connection))
                time.sleep(SWEEP_EVERY_SECONDS)
            reported = [run.result() for run in runs]
            end = stage.ledger_time(begin)
            _tick(connection, end)
            differing = _differing(connection, reported, at=end)
            drift = _tick(connection, end)
            deadlocks = _deadlocks(connection)
    yield invariant("random_steps_over_admitted", over, "units", 0)
    yield invariant("random_steps_counters_off", differing, "counters", 0)
    yield invariant("random_steps_drift", drift, "units", 0)
    yield invariant("random_steps_deadlocks", deadlocks, "deadlocks", 0)
    admitted = sum(len(one.admitted) for one in reported)
    yield invariant("random_steps_admitted", admitted, "pods", STEPS // 20, Bound.AT_LEAST)
    together = sum(one.together for one in reported)
    yield invariant(
        "random_steps_admitted_in_batches", together, "pods", STEPS // 100, Bound.AT_LEAST
    )
    refused = sum(one.refused for one in reported)
    yield invariant("random_steps_refused", refused, "pods", STEPS // 20, Bound.AT_LEAST)


def _tick(connection: psycopg.Connection[Any], at: datetime) -> int:
    """Sweep and compare; return the drift, which there should never be."""
    stage.sweep(at)
    (repairs,) = connection.execute("SELECT quotas_repair(%s)", [at]).fetchone() or ([],)
    return sum(repair["drift_units"] for repair in repairs)


def _over_admitted(connection: psycopg.Connection[Any]) -> int:
    """Return the most units any limit that never changed is over, by the sum of reservations."""
    row = connection.execute(
        "SELECT coalesce(max(n.held_units + n.reserved_units - l.limit_units), 0)"
        "  FROM quotas_counted n JOIN quotas_quotalimit l ON l.id = n.limit_id"
        " WHERE l.scope <> 'project'"
    ).fetchone()
    return max(0, row[0] if row else 0)


def _differing(
    connection: psycopg.Connection[Any], reported: list[stage.Reported], *, at: datetime
) -> int:
    """Return how many counters differ from what the workers admitted, deleted and let expire."""
    wanted: Counter[tuple[str, str | None, str | None, str]] = Counter()
    for one in reported:
        for pod in one.admitted:
            if pod.uid in one.deleted or pod.at + timedelta(seconds=stage.TTL_SECONDS) <= at:
                continue
            organization, project = pod.place.organization_id, pod.place.project_id
            wanted[organization, None, None, pod.size] += pod.units
            wanted[organization, project, None, pod.size] += pod.units
            wanted[organization, project, pod.username, pod.size] += pod.units
    rows = connection.execute(
        "SELECT l.organization_id::text, l.project_id::text, u.username, l.size, c.reserved_units"
        "  FROM quotas_quotacounter c JOIN quotas_quotalimit l ON l.id = c.limit_id"
        "  LEFT JOIN auth_user u ON u.id = l.user_id"
        " WHERE l.organization_id = ANY (%s)",
        [list({pod.place.organization_id for one in reported for pod in one.admitted})],
    ).fetchall()
    return sum(wanted[tuple(row[:4])] != row[4] for row in rows)


def _deadlocks(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    return int(row[0]) if row else 0


def _rates(url: str) -> Iterator[Figure]:
    """Report pods a second and the p99 latency, beside the UPDATE of one row."""
    for name, organizations in (("hot", 1), ("fifty", 50)):
        places = stage.build(organizations=organizations)
        rows = _make_room(url, places)
        bound, _ = _rate(stage.update_one_row, url, rows, RATE_QUESTIONS)
        rate, slow = _rate(_seconds_of_asking, url, places, RATE_QUESTIONS)
        yield measurement(f"admissions_{name}_rate", rate, "1/s")
        yield measurement(f"admissions_{name}_p99", slow * 1_000, "ms")
        yield measurement(f"one_row_update_{name}_rate", bound, "1/s")
        together, _ = _rate(stage.seconds_of_asking_together, url, places, RATE_QUESTIONS)
        yield measurement(f"batches_{name}_rate", together, "1/s")
        for way, pods in (("admissions", rate), ("batches", together)):
            limit = UPDATE_RATIO_MIN[way, name]
            yield ratio(f"{way}_{name}_of_update", pods / bound, Bound.AT_LEAST, limit)


def _make_room(url: str, places: list[stage.Place]) -> list[str]:
    """Raise every limit, so that all is admitted; return the organizations' counters."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE quotas_quotalimit SET limit_units = 1000000")
        found = connection.execute(
            "SELECT id::text FROM quotas_quotalimit"
            " WHERE scope = 'organization' AND organization_id = ANY (%s)",
            [list({place.organization_id for place in places})],
        ).fetchall()
    return [row[0] for row in found]


def _seconds_of_asking(url: str, places: list[stage.Place], count: int) -> list[float]:
    return stage.ask_at_random(url, places, count, time.time(), is_mixed=False).seconds


def _rate(call: Any, *given: Any) -> tuple[Decimal, Decimal]:  # noqa: ANN401 - As it takes them.
    """Return calls a second of all connections together, and the seconds of the slowest 1 %.

    All begin at the same time: a process without concurrent ones is faster.
    """
    runs = stage.side_by_side(call, *given, workers=RATE_CONNECTIONS)
    seconds = sorted(second for run in runs for second in run.seconds)
    took = max(run.end for run in runs) - min(run.begin for run in runs)
    rate = len(seconds) / Decimal(str(took))
    return rate, Decimal(str(seconds[len(seconds) * 99 // 100]))

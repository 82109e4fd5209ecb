"""Admission over HTTP: how many pods a second, how late the slowest, and against a bare view.

Everything runs on this machine: PostgreSQL, the admission server as it is deployed (plain HTTP on
loopback), the sweep every five seconds, and the load. The load is open: arrivals are fixed
beforehand and an answer's time counts from when the question was due, so that a server that stalls
is not spared the questions it kept from being asked. Only what the ledger decided counts; the
cluster denies whatever could not be decided, and one such answer makes the run fall short. Pods
are as an API server shows them, and are deleted again, so that the tables stay in size.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Final

from django.db import connections

from bench import admission_servers as servers
from bench.admission_load import Reported, bare_reason, play, reason_of, request
from bench.admission_stage import Place
from bench.harness import (
    Bound,
    Figure,
    invariant,
    ledger_database,
    measurement,
    ratio,
    scaled,
)

HELD_RATE: Final = 300
HELD_SECONDS: Final = scaled(6)
"""Longer than the time between two sweeps."""
HELD_ROUNDS: Final = scaled(5, least=1)
STEP_SECONDS: Final = scaled(8)
RATES: Final = (200, 300, 400, 500, 600, 700, 800, 900, 1_000, 1_200, 1_500, 2_000, 2_500, 3_000)
STEPS: Final = RATES[: scaled(len(RATES), least=2)]
QUICK_MILLISECONDS: Final = 25
HELD_TO_BARE_MAX: Final = {50: "2.6", 99: "3.0"}
RATIO_MIN: Final = "0.6"
ONE_ROW_RATIO_MIN: Final = "1.1"
ROUNDS: Final = scaled(8, least=2)
ROUND_QUESTIONS: Final = scaled(4_000)
WARM_QUESTIONS: Final = 500
ORGANIZATIONS: Final = 50
SWEEP_SECONDS: Final = 5
ADMIT: Final = "/admit/{cluster}/pods"


def run() -> Iterator[Figure]:
    """Yield the figures."""
    with ledger_database(), ExitStack() as stack:
        stage = servers.build(organizations=ORGANIZATIONS)
        ours = stack.enter_context(servers.admission_server())
        bare = stack.enter_context(servers.bare_server())
        bench = _Bench(stage, ours, bare)
        yield from bench.held()
        yield from bench.highest()
        yield from bench.ratio()


@dataclass(frozen=True)
class _Bench:
    """The stage, and two servers with as many processes."""

    stage: servers.Stage
    ours: servers.Server
    bare: servers.Server

    def held(self) -> Iterator[Figure]:
        """Yield how late answers are at a rate that has to hold, over all tenants and over one.

        Measured alternately with the bare view. The median of the rounds counts: another program
        delays one of them, and what the product does delays each.
        """
        self._ours(self.stage.places, WARM_QUESTIONS, rate=None)
        count = HELD_RATE * HELD_SECONDS
        bare, fifty, hot = zip(
            *(
                (
                    self._bare(count, rate=HELD_RATE),
                    self._ours(self.stage.places, count, rate=HELD_RATE),
                    self._ours(self.stage.places[:1], count, rate=HELD_RATE),
                )
                for _ in range(HELD_ROUNDS)
            ),
            strict=True,
        )
        for name, rounds in (("fifty", fifty), ("hot", hot)):
            for percent in (50, 99):
                milliseconds = _median(rounds, percent)
                yield measurement(f"{name}_p{percent}_ms_at_{HELD_RATE}", milliseconds, "ms")
                late = milliseconds / _median(bare, percent)
                title = f"{name}_p{percent}_to_bare_view"
                yield ratio(title, late, Bound.AT_MOST, HELD_TO_BARE_MAX[percent])
            failures = sum(reported.failures for reported in rounds)
            yield invariant(f"{name}_undecided", failures, "pods", 0)

    def highest(self) -> Iterator[Figure]:
        """Yield the highest rate of the steps whose p99 is quick, going up until one is not."""
        best = 0
        for rate in STEPS:
            reported = self._ours(self.stage.places, rate * STEP_SECONDS, rate=rate)
            if reported.failures or reported.share(99) > QUICK_MILLISECONDS:
                break
            best = rate
        yield measurement(f"rate_p99_{QUICK_MILLISECONDS}ms", best, "pods/s")

    def ratio(self) -> Iterator[Figure]:
        """Yield responses a second divided by those of the bare views, measured alternately."""
        rounds = [
            (
                self._ours(self.stage.places, ROUND_QUESTIONS, rate=None),
                self._bare(ROUND_QUESTIONS),
                self._one_row(),
            )
            for _ in range(ROUNDS)
        ]
        ours, bare, one_row = (
            sum(Decimal(str(reported.seconds)) for reported in way)
            for way in zip(*rounds, strict=True)
        )
        failures = sum(reported.failures for each in rounds for reported in each)
        total = ROUNDS * ROUND_QUESTIONS
        yield invariant("closed_loop_undecided", failures, "pods", 0)
        yield measurement("closed_loop_rate", total / ours, "pods/s")
        yield ratio("ratio_to_bare_view", bare / ours, Bound.AT_LEAST, RATIO_MIN)
        # Its threads do well or badly as its connections fall on its processes: here all do well.
        quickest = min(Decimal(str(reported.seconds)) for _, reported, _ in rounds)
        best = quickest * ROUNDS / ours
        yield measurement("ratio_to_bare_view_at_its_best", best, "x")
        yield ratio("ratio_to_view_of_one_row", one_row / ours, Bound.AT_LEAST, ONE_ROW_RATIO_MIN)

    def _ours(self, places: Sequence[Place], count: int, *, rate: float | None) -> Reported:
        path = ADMIT.format(cluster=self.stage.cluster)
        asked = [
            request(path, servers.body(places[number % len(places)], number))
            for number in range(count)
        ]
        name = f"admission over {len({place.organization_id for place in places})} organizations"
        with _swept(self.stage):
            reported = self._measured(self.ours, asked, rate=rate, name=name)
        self.stage.forget_pods()
        return reported

    def _bare(self, count: int, *, rate: float | None = None) -> Reported:
        asked = [
            request("/bare", servers.body(self.stage.places[0], number)) for number in range(count)
        ]
        return self._measured(self.bare, asked, rate=rate, name="bare view")

    def _one_row(self) -> Reported:
        counters = self.stage.counters()
        asked = [
            request(
                f"/one-row/{counters[number % len(counters)]}",
                servers.body(self.stage.places[0], number),
            )
            for number in range(ROUND_QUESTIONS)
        ]
        return self._measured(self.bare, asked, rate=None, name="view of one row")

    def _measured(
        self, server: servers.Server, asked: list[bytes], *, rate: float | None, name: str
    ) -> Reported:
        """Send requests and report the CPU time of each process."""
        reason = reason_of if server is self.ours else bare_reason
        before = server.cpu_seconds(), self.stage.postgres_cpu_seconds()
        reported = play(server.port, asked, rate=rate, reason=reason)
        after = server.cpu_seconds(), self.stage.postgres_cpu_seconds()
        each = [1_000 * (new - old) / len(asked) for old, new in zip(before, after, strict=True)]
        print(
            f"# {name}, {f'{rate}/s' if rate else 'closed loop'}: {reported.rate:.0f}/s,"
            f" p50 {reported.share(50):.1f} ms, p99 {reported.share(99):.1f} ms; CPU ms each:"
            f" server {each[0]:.2f}, PostgreSQL {each[1]:.2f},"
            f" load {1_000 * reported.cpu_seconds / len(asked):.2f};"
            f" load average {servers.load_average()}; {dict(reported.reasons)}",
            flush=True,
        )
        return reported


def _median(rounds: Sequence[Reported], percent: int) -> Decimal:
    """Return the milliseconds within which a share of the answers of the middle round came."""
    return median(Decimal(str(reported.share(percent))) for reported in rounds)


@contextmanager
def _swept(stage: servers.Stage) -> Iterator[None]:
    """Expire pods and sweep live usage during a block, as often as the product does."""
    ended = threading.Event()

    def work() -> None:
        try:
            while not ended.wait(SWEEP_SECONDS):
                stage.sweep(older_than_seconds=SWEEP_SECONDS)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()

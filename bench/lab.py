"""The lab: nine pods, a Prometheus that is killed, and every usual way of metering.

Everything is fifteen times as fast as in production: a scrape every two seconds by two replicas,
200 seconds for fifty minutes. kube-state-metrics is replaced by another instance after a minute;
Prometheus is killed by SIGKILL and restarted after forty seconds. One watch is never interrupted,
another is disconnected for a minute around the outage. It takes about four minutes and prints what
each method bills.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench.harness import Bound, Figure, invariant, ledger_database
from bench.lab_methods import Reported, ask_all

LEAD_SECONDS = 15
"""For the servers to come up before the story begins."""
ERROR_PERCENT_MAX = Decimal("0.1")
FORGIVEN_PERCENT_MAX = 10
"""What Prometheus alone may miss of this story: two pods die where it could not see them."""


def run() -> Iterator[Figure]:
    """Yield the figures of the lab, its table printed before them."""
    with ledger_database(), tempfile.TemporaryDirectory(prefix="gpu-ledger-lab-") as folder:
        Path(folder).chmod(0o755)
        yield from _figures(*_live(Path(folder)))


def _figures(truth: Mapping[str, int], reported: Sequence[Reported]) -> Iterator[Figure]:
    _print(truth, reported)
    alone, both, cut = reported[:3]
    seen = [uid for uid in truth if alone.seconds.get(uid) and uid not in alone.flagged]
    wrong = sum(abs(both.seconds.get(uid, Decimal(0)) - truth[uid]) for uid in seen)
    yield invariant("lab.error_where_both_saw", wrong, "GPU-s", 0)
    unflagged = [uid for one in (both, cut) for uid in _unflagged(truth, one)]
    yield invariant("lab.errors_without_a_flag", len(unflagged), "pods", 0)
    yield invariant(
        "lab.error_with_the_watch_alive",
        abs(_error_percent(truth, both)),
        "%",
        ERROR_PERCENT_MAX,
        Bound.AT_MOST,
    )
    yield invariant(
        "lab.error_of_prometheus_alone",
        abs(_error_percent(truth, alone)),
        "%",
        FORGIVEN_PERCENT_MAX,
        Bound.AT_MOST,
    )


def _unflagged(truth: Mapping[str, int], reported: Reported) -> list[str]:
    """Return the pods that are billed wrongly without a finding."""
    if reported.is_hour_flagged:
        return []
    return [
        uid
        for uid, seconds in truth.items()
        if reported.seconds.get(uid, Decimal(0)) != seconds and uid not in reported.flagged
    ]


def _error_percent(truth: Mapping[str, int], reported: Reported) -> Decimal:
    total = sum(truth.values())
    return 100 * (sum(reported.seconds.values()) - total) / Decimal(total)


def _print(truth: Mapping[str, int], reported: Sequence[Reported]) -> None:
    rows = [Reported("truth", {uid: Decimal(seconds) for uid, seconds in truth.items()}), *reported]
    print(f"{'method':34}" + "".join(f"{uid:>8}" for uid in truth) + f"{'total':>9}{'error':>9}")
    for row in rows:
        cells = "".join(_cell(row, uid) for uid in truth)
        total = sum(row.seconds.values(), Decimal(0))
        error = f"{_error_percent(truth, row):+.1f} %"
        hour = "  the hour waits for a person" if row.is_hour_flagged else ""
        print(f"{row.method:34}{cells}{total:>9.1f}{error:>9}{hour}")
    print("* flagged with an exception")


def _cell(row: Reported, uid: str) -> str:
    mark = "*" if uid in row.flagged else " "
    return f"{row.seconds.get(uid, Decimal(0)):>7.1f}{mark}"


def _live(folder: Path) -> tuple[Mapping[str, int], list[Reported]]:
    """Run the scenario; return the true GPU-seconds and those of every method."""
    from bench.lab_stage import (  # noqa: PLC0415 - Django is set up by now.
        LAG_SECONDS,
        Stage,
        metered,
        now,
        seconds_of_story,
    )
    from simulator.cluster.lab import (  # noqa: PLC0415 - As above.
        SCRAPE_UNITS,
        SLUG,
        WINDOW_UNITS,
        lab_scenario,
    )

    begin_at = now().replace(microsecond=0) + timedelta(seconds=LEAD_SECONDS)
    end_at = begin_at + timedelta(seconds=WINDOW_UNITS)
    scenario = lab_scenario(begin_at, is_holed=False)
    with Stage(folder, scenario, begin_at=begin_at) as stage:
        for second in seconds_of_story(begin_at, WINDOW_UNITS + LAG_SECONDS):
            stage.step(second)
        alive, cut = (watch.cluster for watch in stage.watches)
        reported = [
            metered(
                method, cluster=cluster, is_watched=is_watched, begin_at=begin_at, end_at=end_at
            )
            for method, cluster, is_watched in (
                ("Prometheus alone", alive, False),
                ("two sources", alive, True),
                ("two sources, the watch cut off", cut, True),
            )
        ]
        url = stage.server.url()
        naive = ask_all(url, at=end_at, window=WINDOW_UNITS, step=SCRAPE_UNITS)
        reported += [Reported(name, seconds) for name, seconds in naive]
    return _truth(scenario.cluster(SLUG).pods, begin_at=begin_at, end_at=end_at), reported


def _truth(pods: Sequence[Any], *, begin_at: datetime, end_at: datetime) -> Mapping[str, int]:
    """Return each pod's GPU-seconds as the story has them, by uid."""
    return {
        pod.uid: pod.true_units * pod.true_seconds(begin_at, end_at)
        for pod in sorted(pods, key=lambda pod: str(pod.uid))
    }

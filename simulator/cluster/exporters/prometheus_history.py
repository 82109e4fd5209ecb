"""Bringing a simulated history into an embedded Prometheus: written and read at the same time."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from embedded.prometheus import EmbeddedPrometheus
from simulator.cluster.exporters.openmetrics import (
    HistorySlice,
    HistoryWriter,
    SliceFigures,
    history_slices,
)
from simulator.cluster.scenario import Scenario

READERS = 2
"""promtool uses about one core; two at a time keep two cores busy beside the writer."""


def import_history(
    server: EmbeddedPrometheus,
    scenario: Scenario,
    *,
    begin_at: datetime,
    until: datetime,
    is_sparse: bool = False,
    on_progress: Callable[[int, int], None] | None = None,
) -> SliceFigures:
    """Import the history of [begin_at, until) into a server that is not started yet.

    It may be interrupted and called again: complete slices are not imported again.

    Args:
        server: Where to.
        scenario: The scenario; `until` is at most its end.
        begin_at: Begin, included.
        until: End, excluded.
        is_sparse: Whether samples that no meter reads are left out.
        on_progress: Called after every slice with the number done and the total.

    Returns:
        What was imported now; nothing when everything had been before.

    Raises:
        EmbeddedServerError: promtool refused a text.
    """
    parts = history_slices(begin_at, until)
    missing = [part for part in parts if not server.has_imported(_name(scenario, part))]
    tell = on_progress or _tell_nobody
    tell(len(parts) - len(missing), len(parts))
    if not missing:
        return SliceFigures(0, 0)
    writer = HistoryWriter(scenario, is_sparse=is_sparse)
    texts: list[tuple[SliceFigures, Future[None]]] = []
    with ThreadPoolExecutor(READERS) as readers:
        for number, part in enumerate(missing):
            # At most READERS texts wait on disk beside the one being written.
            if number >= READERS:
                texts[number - READERS][1].result()
                tell(len(parts) - len(missing) + number - READERS + 1, len(parts))
            name = _name(scenario, part)
            path, figures = _write(writer, part, server.folder / f"history-{name}.txt")
            texts.append((figures, readers.submit(_read, server, path, name)))
        for _, future in texts:
            future.result()
    tell(len(parts), len(parts))
    return SliceFigures(
        samples=sum(figures.samples for figures, _ in texts),
        size_bytes=sum(figures.size_bytes for figures, _ in texts),
    )


def _tell_nobody(done: int, total: int) -> None:
    del done, total


def _name(scenario: Scenario, part: HistorySlice) -> str:
    return f"{scenario.seed}-{part.begin_at:%Y%m%dT%H%M%S}-{part.end_at:%Y%m%dT%H%M%S}"


def _write(writer: HistoryWriter, part: HistorySlice, path: Path) -> tuple[Path, SliceFigures]:
    with path.open("wb") as out:
        return path, writer.write(part, out)


def _read(server: EmbeddedPrometheus, path: Path, name: str) -> None:
    try:
        server.import_openmetrics(path, name=name)
    finally:
        path.unlink(missing_ok=True)

"""FOCUS files of a month of 1,000,000 rows, beside COPY of the same statement.

The twin reads what PostgreSQL sends and discards it: what no writer can do without.
"""

import resource
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

from bench.billing_stage import MONTH_START, execute, make_stage, meter
from bench.harness import (
    Bound,
    Figure,
    invariant,
    is_smoke,
    ledger_database,
    measured,
    measurement,
    ratio,
)

ORGANIZATIONS = 10 if is_smoke() else 100
HOURS = 24 if is_smoke() else 744
PODS = 1_350
"""An hour: 1,004,400 rows in the month."""
AT = MONTH_START + timedelta(hours=745)
ROUNDS = 1 if is_smoke() else 3
"""The fastest of each counts."""
OF_COPY_MIN = Decimal("0.6")
MEMORY_MAX_MIB = 300
KIB = 1024


def run() -> Iterator[Figure]:
    """Yield the figures of both formats."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.adapters.focus_files import ENCODERS  # noqa: PLC0415 - Django is set up by now.
    from billing.domain.exports.focus import FocusFile, FocusFormat  # noqa: PLC0415
    from billing.selectors.exports.focus import FocusScope, stream_focus  # noqa: PLC0415
    from billing.tasks import ACTOR, accrue_pending  # noqa: PLC0415

    stage = make_stage(ORGANIZATIONS, bound_hours=HOURS)
    meter(stage, begin=MONTH_START, hours=HOURS, pods=PODS)
    while accrue_pending(at=AT, actor=ACTOR)[0]:
        pass
    execute("VACUUM ANALYZE billing_charge", connection_name="owner")
    _copy(stage["organizations"], is_guarded=True)  # So that all is in the cache.
    for kind in FocusFormat:
        file = FocusFile.of(
            month="2026-10", dataset="CostAndUsage", version="1.4", format_name=kind.value
        )
        scope = FocusScope(stage["organizations"], issuer="GPU Platform")
        copied, written = [], []
        for _ in range(ROUNDS):
            with measured() as copying:
                rows = _copy(stage["organizations"], is_guarded=kind is FocusFormat.CSV)
            with measured() as writing:
                size = sum(map(len, stream_focus(file, scope, encode=ENCODERS[kind])))
            copied.append(copying.seconds)
            written.append(writing.seconds)
        yield measurement(f"focus.{kind}", min(written), "s")
        yield measurement(f"focus.{kind}_size", Decimal(size) / KIB / KIB, "MiB")
        yield ratio(
            f"focus.{kind}_speed_of_copy",
            min(copied) / min(written),
            Bound.AT_LEAST,
            OF_COPY_MIN,
        )
    yield invariant("focus.rows", rows, "rows", HOURS * PODS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB
    yield invariant("focus.peak_memory", peak, "MiB", MEMORY_MAX_MIB, Bound.AT_MOST)


def _copy(organizations: list[object], *, is_guarded: bool) -> int:
    """Read the rows of the dataset, guarded as in CSV or not, and return their number."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    from billing.domain.exports.focus import FocusDataset  # noqa: PLC0415
    from billing.selectors.exports.focus import PLANNING, focus_statement  # noqa: PLC0415
    from billing.selectors.exports.months import snapshot  # noqa: PLC0415

    statement = focus_statement(FocusDataset.COST_AND_USAGE, version="1.4", is_guarded=is_guarded)
    values = {"label": "2026-10", "organizations": organizations, "issuer": "GPU Platform"}
    copying = f"COPY ({statement}) TO STDOUT"
    with snapshot(), connection.cursor() as cursor:
        cursor.execute(PLANNING)
        with cursor.copy(copying, values) as copy:
            return sum(1 for _ in copy)

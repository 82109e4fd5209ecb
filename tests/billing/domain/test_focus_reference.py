"""docs/reference/focus.md lists the columns that are written and checked.

After a change of the table:
    GOLDEN=write .venv/bin/pytest tests/billing/domain/test_focus_reference.py
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from billing.domain.exports.focus import VERSIONS, FocusColumn, FocusDataset, columns_in
from billing.domain.exports.focus_tables import FOCUS_COLUMNS

PATH: Final = Path(__file__).resolve().parents[3] / "docs/reference/focus.md"
MARK: Final = (
    "<!-- Below: made of billing/domain/exports by tests/billing/domain/test_focus_reference.py -->"
)
IS_WRITING: Final = os.environ.get("GOLDEN") == "write"


def test_the_reference_has_every_column_and_its_rules() -> None:
    head, _, written = PATH.read_text(encoding="utf-8").partition(MARK)
    tables = "\n".join(line for dataset in FocusDataset for line in _table(dataset)) + "\n"
    if IS_WRITING:
        PATH.write_text(f"{head}{MARK}\n{tables}", encoding="utf-8")
        return

    assert written == f"\n{tables}"


def test_versions_have_as_many_columns_as_the_specification() -> None:
    columns = [column for column in FOCUS_COLUMNS[FocusDataset.COST_AND_USAGE] if not column.is_own]

    assert [len(columns_in(columns, version)) for version in VERSIONS] == [57, 65, 65]
    assert len(FOCUS_COLUMNS[FocusDataset.INVOICE_DETAIL]) == 22
    assert len(FOCUS_COLUMNS[FocusDataset.BILLING_PERIOD]) == 6


def _table(dataset: FocusDataset) -> Iterator[str]:
    yield f"\n## {dataset}\n"
    yield "| column | versions | type | level | null | value |"
    yield "|---|---|---|---|---|---|"
    for column in FOCUS_COLUMNS[dataset]:
        cells = (
            f"`{column.name}`",
            _versions(column),
            column.type,
            column.level,
            "yes" if column.is_nullable else "no",
            column.text if column.sql else f"Not written. {column.text}",
        )
        yield f"| {' | '.join(cells)} |"


def _versions(column: FocusColumn) -> str:
    known = [version for version in VERSIONS if column.is_in(version)]
    return known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"

"""The strict check of a FOCUS file: columns, values, rows, and rows together; as a stream."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from billing.domain.exports.focus import (
    OWN_PREFIX,
    FocusColumn,
    FocusDataset,
    Level,
    columns_in,
)
from billing.domain.exports.focus_rules import DETAIL_RULES, PAIR_RULES, ROW_RULES, PairRule, Row
from billing.domain.exports.focus_tables import FOCUS_COLUMNS
from billing.domain.exports.focus_values import value_problem

HEADER: Final = 0
"""The row of a finding about the columns; data begin at 1."""
REMEMBERED_MAX: Final = 10_000
"""Values of one column that are known to be right: most columns have few."""


@dataclass(frozen=True)
class FocusFinding:
    """What is wrong, where, and what to do."""

    row: int
    column: str
    text: str

    def __str__(self) -> str:
        """Return it as a line."""
        where = f"row {self.row}" if self.row else "header"
        return f"{where}, {self.column}: {self.text}"


def dataset_of(header: Collection[str]) -> FocusDataset:
    """Return the dataset that columns are of."""
    if "InvoiceDetailCreated" in header:
        return FocusDataset.INVOICE_DETAIL
    if "BillingPeriodStatus" in header:
        return FocusDataset.BILLING_PERIOD
    return FocusDataset.COST_AND_USAGE


def version_of(header: Collection[str]) -> str:
    """Return the version that columns are of; 1.4 has no provider, and 1.2 one only."""
    if "ProviderName" not in header:
        return "1.4"
    return "1.3" if "ServiceProviderName" in header else "1.2"


def check_focus(
    header: Sequence[str], rows: Iterable[Row], *, version: str
) -> Iterator[FocusFinding]:
    """Yield what is wrong with a file, in the order of its rows.

    Args:
        header: Its columns.
        rows: Texts by column; None is no value.
        version: Of FOCUS.
    """
    dataset = dataset_of(header)
    known = {column.name: column for column in columns_in(FOCUS_COLUMNS[dataset], version)}
    yield from _header(header, known, version=version)
    columns = [known[name] for name in dict.fromkeys(header) if name in known]
    pairs = {
        FocusDataset.COST_AND_USAGE: PAIR_RULES,
        FocusDataset.INVOICE_DETAIL: DETAIL_RULES,
        FocusDataset.BILLING_PERIOD: (),
    }[dataset]
    yield from _rows(columns, rows, pairs=pairs, version=version)


def _header(
    header: Sequence[str], known: dict[str, FocusColumn], *, version: str
) -> Iterator[FocusFinding]:
    seen: set[str] = set()
    is_own = False
    for name in header:
        if name in seen:
            yield FocusFinding(HEADER, name, "It is there twice. Keep one.")
        seen.add(name)
        if name.startswith(OWN_PREFIX):
            is_own = True
        elif name not in known:
            yield FocusFinding(
                HEADER, name, f"FOCUS {version} has no such column. Begin its name with x_."
            )
        elif is_own:
            yield FocusFinding(HEADER, name, "It is behind own columns. Put these last.")
    for column in known.values():
        if column.level is Level.MANDATORY and column.name not in seen:
            yield FocusFinding(HEADER, column.name, f"FOCUS {version} demands it. Add the column.")


def _rows(
    columns: Sequence[FocusColumn],
    rows: Iterable[Row],
    *,
    pairs: Sequence[PairRule],
    version: str,
) -> Iterator[FocusFinding]:
    names = {column.name for column in columns}
    rules = [
        rule for rule in ROW_RULES if rule.column in names and rule.since <= version <= rule.until
    ]
    right: dict[str, set[str | None]] = {column.name: set() for column in columns}
    pairings = [_SeenPairs(rule) for rule in pairs if {*rule.keys, rule.column} <= names]
    for number, row in enumerate(rows, 1):
        wrong = list(_wrong_values(columns, row, right=right))
        # Rules of several columns take each value to be right.
        if not wrong:
            wrong = [(rule.column, rule.remedy) for rule in rules if not rule.holds(row)]
            wrong += [(one.rule.column, one.rule.remedy) for one in pairings if not one.holds(row)]
        yield from (FocusFinding(number, column, text) for column, text in wrong)


def _wrong_values(
    columns: Sequence[FocusColumn], row: Row, *, right: Mapping[str, set[str | None]]
) -> Iterator[tuple[str, str]]:
    for column in columns:
        value, known = row[column.name], right[column.name]
        if value in known:
            continue
        if problem := value_problem(column, value):
            yield column.name, problem
        elif len(known) < REMEMBERED_MAX:
            known.add(value)


class _SeenPairs:
    """The values of a rule of all rows so far."""

    def __init__(self, rule: PairRule) -> None:
        """Begin without any."""
        self.rule = rule
        self._values: dict[tuple[str | None, ...], str | None] = {}

    def holds(self, row: Row) -> bool:
        """Whether a row agrees with those before it; it is one of them from now on."""
        key = tuple(row[name] for name in self.rule.keys)
        if None in key:
            return True
        if key in self._values:
            return not self.rule.is_unique and self._values[key] == row[self.rule.column]
        self._values[key] = row[self.rule.column]
        return True

"""FOCUS datasets: versions, datasets, and what a column is.

Source: FinOps Open Cost and Usage Specification 1.2, 1.3 and 1.4 (focus.finops.org).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from billing.domain.exports.errors import FocusVersionError
from billing.domain.period import Month

VERSIONS: Final = ("1.2", "1.3", "1.4")
"""Oldest first; text order is their order."""
NEWEST: Final = VERSIONS[-1]
DECIMAL_DIGITS: Final = 38
"""Of any decimal, as Parquet's decimal128 has them."""
QUANTITY_DECIMALS: Final = 10
"""Of quantities in unit-hours and of prices; their product, a cost, has twice as many."""
COST_DECIMALS: Final = 2 * QUANTITY_DECIMALS
OWN_PREFIX: Final = "x_"
"""Of columns and keys that FOCUS does not define."""


class FocusDataset(StrEnum):
    """Which table; the last two are of version 1.4 only."""

    COST_AND_USAGE = "CostAndUsage"
    INVOICE_DETAIL = "InvoiceDetail"
    BILLING_PERIOD = "BillingPeriod"


class FocusFormat(StrEnum):
    """As which file."""

    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True)
class FocusFile:
    """Which file of a month is asked for; see `of`."""

    dataset: FocusDataset
    version: str
    month: Month
    format: FocusFormat

    @classmethod
    def of(cls, *, month: str, dataset: str, version: str, format_name: str) -> Self:
        """Return what texts ask for.

        Raises:
            PeriodLabelInvalidError: The month is none.
            FocusVersionError: The version does not have the dataset.
        """
        file = cls(
            FocusDataset(dataset),
            version,
            Month.parse(month, field="month"),
            FocusFormat(format_name),
        )
        if file.dataset is not FocusDataset.COST_AND_USAGE and version != NEWEST:
            raise FocusVersionError(
                f"FOCUS {version} has no dataset {dataset}.",
                field="version",
                facts={"dataset": dataset, "version": version},
            )
        return file

    @property
    def name(self) -> str:
        """The name of the file, such as focus-1.4-CostAndUsage-2026-10.csv."""
        return f"focus-{self.version}-{self.dataset}-{self.month.label}.{self.format}"


class ColumnType(StrEnum):
    """What the values of a column are."""

    STRING = "String"
    DECIMAL = "Decimal"
    INTEGER = "Integer"
    DATE_TIME = "Date/Time"
    JSON = "JSON"


class Level(StrEnum):
    """Whether a file must have a column: a conditional one once what it is about exists."""

    MANDATORY = "mandatory"
    CONDITIONAL = "conditional"
    RECOMMENDED = "recommended"


@dataclass(frozen=True)
class FocusColumn:
    """A column of a dataset.

    Attributes:
        sql: What gives its value, of a row `r` of `billing.selectors.exports.focus`; "" where it is
            not written.
        text: What its value is here, or why there is none.
        level: Whether a file must have it.
        is_nullable: Whether a value may be missing.
        allowed: The only values, where FOCUS lists them.
        since: The first version that has it.
        until: The last one.
        decimals: Of a decimal.
        is_unit: Whether a value follows FOCUS' format of units.
    """

    name: str
    type: ColumnType
    sql: str
    text: str
    level: Level = Level.MANDATORY
    is_nullable: bool = False
    allowed: tuple[str, ...] = ()
    since: str = VERSIONS[0]
    until: str = VERSIONS[-1]
    decimals: int = COST_DECIMALS
    is_unit: bool = False

    def is_in(self, version: str) -> bool:
        """Whether a version has it."""
        return self.since <= version <= self.until

    @property
    def is_own(self) -> bool:
        """Whether it is one that FOCUS does not define."""
        return self.name.startswith(OWN_PREFIX)


def columns_in(columns: Iterable[FocusColumn], version: str) -> tuple[FocusColumn, ...]:
    """Return the columns of a version, in their order."""
    return tuple(column for column in columns if column.is_in(version))


def written_in(columns: Iterable[FocusColumn], version: str) -> tuple[FocusColumn, ...]:
    """Return the columns of a version that are written, in their order."""
    return tuple(column for column in columns_in(columns, version) if column.sql)


FocusEncoder = Callable[[Iterator[bytes], Sequence[FocusColumn]], Iterator[bytes]]
"""Makes a file of CSV: the header, and then whole rows in each block."""

"""Fixed data of the demo: prices, limits, and people in finance and operations."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from simulator.cluster.tenancy import PlannedBook, PlannedPrice


@dataclass(frozen=True)
class PlannedLimit:
    """A limit of an organization, or of one of its projects."""

    organization: str
    project: str
    size: str
    limit_units: int


@dataclass(frozen=True)
class PlannedRequest:
    """The quota request the demo sends over REST and has approved."""

    organization: str
    project: str
    size: str
    requested_units: int
    justification: str
    requested_by: str
    approved_by: str


@dataclass(frozen=True)
class PlannedDebt:
    """What an organization still owed in the system before."""

    organization: str
    reference: str
    amount: Decimal
    overdue_days: int


PRICE_BOOKS: Final = (
    PlannedBook(
        slug="standard-eur",
        name="Standard prices (EUR)",
        currency="EUR",
        prices=(
            PlannedPrice("small", "*", Decimal("0.4200")),
            PlannedPrice("medium", "*", Decimal("1.3500")),
            PlannedPrice("large", "*", Decimal("2.9000")),
            PlannedPrice("small", "A100/1of4", Decimal("0.3100")),
            PlannedPrice("medium", "H100/3g.40gb", Decimal("1.5500")),
            PlannedPrice("large", "*", Decimal("2.7500"), from_day=16),
        ),
    ),
    PlannedBook(
        slug="standard-usd",
        name="Standard prices (USD)",
        currency="USD",
        prices=(
            PlannedPrice("small", "*", Decimal("0.4600")),
            PlannedPrice("medium", "*", Decimal("1.4900")),
            PlannedPrice("large", "*", Decimal("3.1900")),
            PlannedPrice("small", "A100/1of4", Decimal("0.3375")),
        ),
    ),
)

LIMITS: Final = (
    PlannedLimit("northwind", "", "small", 40),
    PlannedLimit("northwind", "", "medium", 16),
    PlannedLimit("northwind", "", "large", 24),
    PlannedLimit("northwind", "llm", "small", 8),
    PlannedLimit("northwind", "llm", "medium", 6),
    PlannedLimit("northwind", "llm", "large", 12),
    PlannedLimit("northwind", "genomics", "small", 8),
    PlannedLimit("northwind", "genomics", "medium", 4),
    PlannedLimit("northwind", "genomics", "large", 4),
    PlannedLimit("northwind", "courses", "small", 20),
    PlannedLimit("contoso", "", "small", 40),
    PlannedLimit("contoso", "", "medium", 12),
    PlannedLimit("contoso", "", "large", 12),
    PlannedLimit("contoso", "perception", "small", 16),
    PlannedLimit("contoso", "perception", "medium", 6),
    PlannedLimit("contoso", "perception", "large", 6),
    PlannedLimit("contoso", "labeling", "small", 12),
    PlannedLimit("contoso", "robotics", "medium", 4),
    PlannedLimit("contoso", "robotics", "large", 4),
    PlannedLimit("fabrikam", "", "small", 32),
    PlannedLimit("fabrikam", "", "medium", 8),
    PlannedLimit("fabrikam", "", "large", 8),
    PlannedLimit("fabrikam", "agents", "small", 12),
    PlannedLimit("fabrikam", "agents", "medium", 4),
    PlannedLimit("fabrikam", "agents", "large", 4),
    PlannedLimit("fabrikam", "simulation", "small", 12),
)

QUOTA_REQUEST: Final = PlannedRequest(
    organization="northwind",
    project="llm",
    size="large",
    requested_units=16,
    justification="Pretraining of the next model begins on Monday.",
    requested_by="lukas",
    approved_by="nora",
)

PAYER: Final = "fabrikam"
"""The organization that pays its invoice of the month."""
OLD_DEBT: Final = PlannedDebt("contoso", "CV-2026-0815", Decimal("1250.00"), overdue_days=45)

PLATFORM_ADMIN: Final = "frank"
PLATFORM_REVIEWER: Final = "gwen"
FINANCE_ADMIN: Final = "dora"
FINANCE_REVIEWER: Final = "emil"
AUDITOR: Final = "ann"

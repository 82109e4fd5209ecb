"""Minimum charges of organizations as published: an amount a month, and its months."""

from dataclasses import dataclass
from decimal import Decimal

from billing.domain.documents.invoicing import AMOUNT_LIMIT
from billing.domain.money import Money
from billing.domain.period import Month
from tenants.domain.errors import ConflictError, InvalidInputError


class MinimumInvalidError(InvalidInputError):
    """Amount or months of a minimum charge are wrong."""

    code = "minimum_invalid"
    remedy = "Give an amount from 0, no finer than the currency, and months such as 2027-01."


class MinimumOverlapError(ConflictError):
    """An organization would have two minimum charges in a month."""

    code = "minimum_overlap"
    remedy = "Choose other months, or name the minimum charge that it replaces, with a reason."


class MinimumMonthsClosedError(ConflictError):
    """A month of the minimum charge is closed."""

    code = "minimum_months_closed"
    remedy = "Begin after the last closed month, or name the one that it replaces, with a reason."


class MinimumInForceError(ConflictError):
    """The minimum charge is withdrawn or replaced, or was in force in a closed month."""

    code = "minimum_in_force"
    remedy = "Publish another one that replaces it; one of 0 ends it."


class ProjectMissingError(ConflictError):
    """The organization has no project that a minimum charge could be billed to."""

    code = "minimum_without_project"
    remedy = "Create a project first."


@dataclass(frozen=True)
class MinimumRule:
    """A minimum charge.

    Attributes:
        amount: For each month, net, in the organization's billing currency; 0 for none.
        first_month: The first month in force, such as "2026-10".
        last_month: The last one; "" until further notice.
        superseded_from: The month from which another one replaces it; "" for none.
    """

    amount: Decimal
    first_month: str
    last_month: str = ""
    superseded_from: str = ""

    def is_in_force(self, label: str) -> bool:
        """Whether a month is one of its own."""
        return (
            self.first_month <= label
            and (not self.last_month or label <= self.last_month)
            and (not self.superseded_from or label < self.superseded_from)
        )

    def overlaps(self, other: "MinimumRule") -> bool:
        """Whether both are in force in some month."""
        first = max(self.first_month, other.first_month)
        return self.is_in_force(first) and other.is_in_force(first)


def require_minimum(rule: MinimumRule, *, currency: str) -> None:
    """Refuse a minimum charge that cannot be billed.

    Raises:
        MinimumInvalidError: Amount or months are wrong.
        PeriodLabelInvalidError: A month is none.
    """
    try:
        amount = Money(rule.amount, currency).amount
    except ValueError:
        amount = Decimal(-1)
    if not 0 <= amount < AMOUNT_LIMIT:
        raise MinimumInvalidError(
            "The amount is negative, too large or finer than the currency.", field="amount"
        )
    first = Month.parse(rule.first_month, field="first_month")
    if rule.last_month and Month.parse(rule.last_month, field="last_month") < first:
        raise MinimumInvalidError("The last month is before the first.", field="last_month")

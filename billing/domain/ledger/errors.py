"""Refusals of the journal and of what happens beside final documents."""

from tenants.domain.errors import ConflictError


class AccountingMonthError(ConflictError):
    """The accounting month is not over, or closed already."""

    code = "accounting_month"
    remedy = "Name a month that is over and later than the last closed one, which facts has."

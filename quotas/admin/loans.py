"""Admin pages of loans between projects, and of what organizations agreed about them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_noop
from unfold.decorators import display

from metering.domain.efficiency.rules import thresholds_of
from quotas.models import LoanPolicy, QuotaLoan
from quotas.selectors.lending import LendingTerms
from quotas.services.lending.loans import approve_loan, decline_loan, recall_loan
from quotas.services.lending.proposals import set_loan_policy
from tenants.admin.base import LedgerAdmin, ServiceAdmin
from tenants.domain.actors import Actor
from tenants.templatetags.texts import value_text


@admin.register(QuotaLoan)
class QuotaLoanAdmin(LedgerAdmin):
    """What projects lend each other."""

    view_capability = "quotas:limit:read"
    write_capability = "quotas:limit:write"
    hint = (
        "Proposed every hour where one project waits for units that another leaves idle. "
        "Approving moves the units in one step until the date; recalling returns them at "
        "once."
    )
    list_display = (
        "created_at",
        "organization",
        "lender",
        "borrower",
        "size",
        "units",
        "lender_idle_units",
        "borrower_missing_units",
        "state_label",
        "end_at",
        "is_automatic",
        "decided_by",
    )
    day_column = "created_at"
    list_filter = ("state", "size", "organization")
    list_select_related = ("organization", "lender", "borrower", "decided_by")
    search_fields = ("lender__name", "lender__slug", "borrower__name", "borrower__slug")
    actions = ("approve_loans", "decline_loans", "recall_loans")

    @display(
        description="state",
        ordering="state",
        label={
            "proposed": "warning",
            "active": "success",
            "declined": "danger",
            "lapsed": "info",
            "ended": "info",
            "recalled": "danger",
        },
    )
    def state_label(self, loan: QuotaLoan) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(loan.state), value_text(loan.state)

    @admin.action(description="Approve", permissions=["write"])
    def approve_loans(self, request: HttpRequest, rows: QuerySet[QuotaLoan]) -> None:
        """Put the chosen loans into force."""
        terms = LendingTerms(
            burst_classes=settings.BURST_PRIORITY_CLASSES,
            thresholds=thresholds_of(settings.WASTE_THRESHOLDS),
        )
        self.for_each(
            request,
            rows,
            lambda row, actor, at: approve_loan(loan_id=row.pk, terms=terms, actor=actor, at=at),
            done=gettext_noop("is approved"),
        )

    @admin.action(description="Decline", permissions=["write"])
    def decline_loans(self, request: HttpRequest, rows: QuerySet[QuotaLoan]) -> None:
        """Decline the chosen loans."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: decline_loan(loan_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is declined"),
        )

    @admin.action(description="Recall", permissions=["write"])
    def recall_loans(self, request: HttpRequest, rows: QuerySet[QuotaLoan]) -> None:
        """End the chosen loans now."""
        self.for_each(
            request,
            rows,
            lambda row, actor, at: recall_loan(loan_id=row.pk, actor=actor, at=at),
            done=gettext_noop("is recalled"),
        )


@admin.register(LoanPolicy)
class LoanPolicyAdmin(ServiceAdmin):
    """What organizations agreed about loans."""

    view_capability = "quotas:limit:read"
    write_capability = "quotas:limit:write"
    hint = (
        "An organization without a row here has loans proposed: at most 8 units, for 7 days, and "
        "a fifth of the lender's limit stays free."
    )
    add_fields = ("organization", "mode", "max_units", "max_days", "keep_free_percent")
    change_fields = ("mode", "max_units", "max_days", "keep_free_percent")
    list_display = (
        "organization",
        "mode",
        "max_units",
        "max_days",
        "keep_free_percent",
        "changed_at",
    )
    list_filter = ("mode",)
    list_select_related = ("organization",)
    search_fields = ("organization__name", "organization__slug")
    autocomplete_fields = ("organization",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> LoanPolicy:
        """Set a policy."""
        return set_loan_policy(**fields, actor=actor, at=at)

    def change(
        self, row: LoanPolicy, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> LoanPolicy:
        """Change a policy; what is not in the form stays."""
        kept = {name: getattr(row, name) for name in self.change_fields}
        return set_loan_policy(
            organization=row.organization, **{**kept, **changes}, actor=actor, at=at
        )

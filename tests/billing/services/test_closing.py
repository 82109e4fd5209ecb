"""Months are sent to review, approved and closed; opened again with a reason; closed as nil."""

from datetime import timedelta
from functools import partial

import pytest
from django.db import DatabaseError, transaction

from billing.domain.errors import (
    FourEyesError,
    InvoiceFinalError,
    PeriodHasChargesError,
    PeriodNotReadyError,
    PeriodStateError,
    ReasonMissingError,
    UnusualCostError,
)
from billing.models import BillingPeriod, Charge, Invoice, PeriodState
from billing.services.closing import (
    approve_period,
    close_nil_period,
    reopen_period,
    review_period,
)
from billing.services.finalizing import finalize_invoice
from billing.services.invoicing import discard_draft, draft_invoice
from billing.services.periods import open_period
from billing.tasks import settle_periods
from metering.models import MeteringWindow
from tenants.domain.actors import Actor, ActorKind
from tenants.models import AuditEntry
from tests.support.billing.late import accrue_late, correct, draft, finalize
from tests.support.billing.ledger import (
    DORA,
    ERIC,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    month_of_use,
    seal_rest_of_month,
    sealed_window,
)
from tests.support.billing.site import SITE_TERMS
from tests.support.builders import AT, MONTH_END, make_organization

pytestmark = pytest.mark.django_db
NOVEMBER_END = MONTH_END + timedelta(days=31)
FAYE = Actor(kind=ActorKind.PERSON, id="9", label="faye")


def october(ledger: Ledger) -> BillingPeriod:
    return BillingPeriod.objects.get(organization=ledger.organization, label="2026-10")


def in_review(ledger: Ledger, *, by: Actor = DORA) -> BillingPeriod:
    return review_period(period_id=october(ledger).pk, actor=by, at=AT, terms=SITE_TERMS)


def test_a_month_goes_from_open_over_review_and_approved_to_closed() -> None:
    ledger = month_of_use([("llm", 3600)])

    reviewed = in_review(ledger)
    approved = approve_period(period_id=reviewed.pk, actor=ERIC, at=AT, terms=SITE_TERMS)
    final = finalize_invoice(
        invoice_id=Invoice.objects.get().pk, actor=DORA, at=AT, terms=SITE_TERMS
    )

    assert (reviewed.state, approved.state, october(ledger).state) == (
        "review",
        "approved",
        "closed",
    )
    assert (final.drafted_by, final.finalized_by) == ("dora", "dora")
    assert (october(ledger).reviewed_by, october(ledger).approved_by) == ("dora", "eric")
    entries = AuditEntry.objects.filter(object_kind="billing_period", object_id=str(reviewed.pk))
    entries = entries.exclude(action="billing:period:open")
    assert list(entries.order_by("id").values_list("action", "actor_label")) == [
        ("billing:period:review", "dora"),
        ("billing:period:approve", "eric"),
    ]


def test_the_second_person_approves_and_finalizes_in_one_step() -> None:
    ledger = month_of_use([("llm", 3600)])
    in_review(ledger)

    finalize(Invoice.objects.get())

    month = october(ledger)
    assert (month.state, month.reviewed_by, month.approved_by) == ("closed", "dora", "eric")


def test_what_comes_during_review_is_charged_to_the_open_month_and_changes_no_bill() -> None:
    ledger = month_of_use([("llm", 3600)])
    open_period(organization=ledger.organization, label="2026-11", actor=DORA, at=AT)
    in_review(ledger)

    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 600))

    assert dict(Charge.objects.values_list("unit_seconds", "period__label")) == {
        3600: "2026-10",
        600: "2026-11",
    }
    assert finalize(Invoice.objects.get()).unit_seconds == 3600


@pytest.mark.parametrize(("sender", "approver"), [(DORA, DORA), (TICK, ERIC), (DORA, TICK)])
def test_two_people_review_and_approve(sender: Actor, approver: Actor) -> None:
    ledger = month_of_use([("llm", 3600)])
    period = in_review(ledger, by=sender)

    with pytest.raises(FourEyesError):
        approve_period(period_id=period.pk, actor=approver, at=AT, terms=SITE_TERMS)
    with pytest.raises(FourEyesError):
        finalize_invoice(
            invoice_id=Invoice.objects.get().pk, actor=approver, at=AT, terms=SITE_TERMS
        )

    assert (october(ledger).state, Invoice.objects.get().state) == ("review", "draft")


def test_a_month_is_opened_again_with_a_reason_and_loses_its_approval() -> None:
    ledger = month_of_use([("llm", 3600)])
    approve_period(period_id=in_review(ledger).pk, actor=ERIC, at=AT, terms=SITE_TERMS)

    reopened = reopen_period(
        period_id=october(ledger).pk, reason=" A price is wrong. ", actor=FAYE, at=AT
    )

    assert (reopened.state, reopened.reviewed_by, reopened.approved_by) == ("open", "", "")
    entry = AuditEntry.objects.get(action="billing:period:reopen")
    assert entry.facts == {
        "period": "2026-10",
        "reason": "A price is wrong.",
        "was": "approved",
        "reviewed_by": "dora",
        "approved_by": "eric",
    }
    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 600))
    assert draft(ledger.organization, "2026-10").unit_seconds == 4200


@pytest.mark.parametrize("reason", ["", "   ", "x" * 501])
def test_a_month_is_not_opened_again_without_a_reason(reason: str) -> None:
    ledger = month_of_use([("llm", 3600)])
    in_review(ledger)

    with pytest.raises(ReasonMissingError) as refused:
        reopen_period(period_id=october(ledger).pk, reason=reason, actor=FAYE, at=AT)

    assert (refused.value.field, october(ledger).state) == ("reason", "review")


def test_each_step_is_refused_in_any_other_state() -> None:
    ledger = month_of_use([("llm", 3600)])
    period_id = october(ledger).pk
    with pytest.raises(PeriodStateError):
        approve_period(period_id=period_id, actor=ERIC, at=AT, terms=SITE_TERMS)
    with pytest.raises(PeriodStateError):
        reopen_period(period_id=period_id, reason="x", actor=ERIC, at=AT)

    in_review(ledger)
    with pytest.raises(PeriodStateError):
        draft(ledger.organization, "2026-10")
    with pytest.raises(PeriodStateError):
        discard_draft(invoice_id=Invoice.objects.get().pk, actor=DORA, at=AT)
    with pytest.raises(PeriodStateError):
        in_review(ledger)
    finalize(Invoice.objects.get())

    for step in (review_period, approve_period):
        with pytest.raises((PeriodStateError, InvoiceFinalError)):
            step(period_id=period_id, actor=FAYE, at=AT, terms=SITE_TERMS)
    with pytest.raises(PeriodStateError) as refused:
        reopen_period(period_id=period_id, reason="x", actor=FAYE, at=AT)
    assert refused.value.facts == {"state": "closed", "move": "reopen"}


@pytest.mark.parametrize(
    ("state", "other"), [("open", "approved"), ("review", "closed"), ("approved", "review")]
)
def test_the_database_refuses_a_step_that_is_left_out(state: str, other: str) -> None:
    ledger = month_of_use([("llm", 3600)])
    months = BillingPeriod.objects.filter(pk=october(ledger).pk)
    for step in ("review", "approved")[: ["open", "review", "approved"].index(state)]:
        months.update(state=step)

    with pytest.raises(DatabaseError, match="closes step by step"), transaction.atomic():
        months.update(state=other)

    assert months.get().state == state


def test_a_month_that_is_not_ready_is_not_sent_to_review() -> None:
    ledger = make_ledger(bound_hours=3)
    open_period(organization=ledger.organization, label="2026-10", actor=DORA, at=AT)

    with pytest.raises(PeriodNotReadyError):
        in_review(ledger)

    assert october(ledger).state == "open"


def test_months_without_use_close_as_nil_and_never_swallow_late_use() -> None:
    ledger = make_ledger(bound_hours=3)
    sealed_window(ledger.cluster)
    seal_rest_of_month(ledger.cluster, hours=3)
    open_period(organization=ledger.organization, label="2026-10", actor=DORA, at=AT)
    accrue_everything()

    settle_periods(at=AT, actor=TICK)

    month = october(ledger)
    assert (month.state, month.closed_at, Invoice.objects.count()) == ("closed", AT, 0)
    entry = AuditEntry.objects.get(action="billing:period:close_nil")
    assert (entry.object_id, entry.facts) == (str(month.pk), {"period": "2026-10"})
    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 600))
    assert Charge.objects.get().period.label == "2026-11"


def test_a_month_with_use_or_not_over_is_not_closed_as_nil() -> None:
    ledger = month_of_use([("llm", 3600)])
    now = open_period(organization=ledger.organization, label="2026-11", actor=DORA, at=AT)

    with pytest.raises(PeriodHasChargesError):
        close_nil_period(period_id=october(ledger).pk, actor=TICK, at=AT)
    with pytest.raises(PeriodNotReadyError):
        close_nil_period(period_id=now.pk, actor=TICK, at=AT)

    assert set(BillingPeriod.objects.values_list("state", flat=True)) == {PeriodState.OPEN}


def test_a_draft_made_stale_by_a_late_correction_is_drafted_again_by_the_next_sweep() -> None:
    ledger = month_of_use([("llm", 3600)])
    settle_periods(at=AT, actor=TICK)
    later = AT + HOUR
    accrue_late(correct(MeteringWindow.objects.earliest("start_at"), ledger.llm, 600), at=later)

    settle_periods(at=later + HOUR, actor=TICK)

    invoice = Invoice.objects.get()
    assert (invoice.unit_seconds, invoice.version) == (4200, 2)
    assert invoice.checked_at == later + HOUR


def test_a_draft_that_shows_the_same_is_kept_with_who_drafted_it() -> None:
    ledger = month_of_use([("llm", 3600)])
    made = draft(ledger.organization, "2026-10")

    settle_periods(at=AT + 25 * HOUR, actor=TICK)

    again = Invoice.objects.get()
    assert (again.drafted_by, again.drafted_at, again.version) == ("dora", AT, made.version)
    assert again.checked_at == AT + 25 * HOUR


def test_a_draft_of_another_address_is_made_again_by_night() -> None:
    ledger = month_of_use([("llm", 3600)])
    settle_periods(at=AT, actor=TICK)
    ledger.organization.billing_address = "New Street 1"
    ledger.organization.save(update_fields=["billing_address"])

    settle_periods(at=AT + 2 * HOUR, actor=TICK)
    assert Invoice.objects.get().document["customer"]["address"] == ""
    settle_periods(at=AT + 25 * HOUR, actor=TICK)

    assert Invoice.objects.get().document["customer"]["address"] == "New Street 1"


def test_an_organization_without_any_namespace_has_nil_months() -> None:
    payer = make_organization("idle")
    period = open_period(organization=payer, label="2026-10", actor=DORA, at=AT)
    assert period.hours.upper <= MONTH_END

    settle_periods(at=AT, actor=TICK)

    assert BillingPeriod.objects.get(pk=period.pk).state == "closed"


def test_a_month_in_review_is_not_drafted_by_the_sweep() -> None:
    ledger = month_of_use([("llm", 3600)])
    in_review(ledger)

    settle_periods(at=AT + 25 * HOUR, actor=TICK)

    assert (Invoice.objects.get().version, Invoice.objects.get().drafted_by) == (1, "dora")


def costly_november(ledger: Ledger, *, times: int) -> BillingPeriod:
    """Return a November of so many times the cost of October, which is final."""
    finalize(draft(ledger.organization, "2026-10"))
    sealed_window(ledger.cluster, [Use(ledger.llm, 3600 * times, units=times)], start_at=MONTH_END)
    accrue_everything()
    return BillingPeriod.objects.get(organization=ledger.organization, label="2026-11")


@pytest.mark.parametrize(("times", "is_refused"), [(3, False), (4, True)])
def test_a_cost_of_more_than_three_times_the_usual_needs_a_reason(
    times: int,
    is_refused: bool,  # noqa: FBT001 - A table of cases.
) -> None:
    november = costly_november(month_of_use([("llm", 3600)]), times=times)
    review = partial(
        review_period, period_id=november.pk, actor=DORA, at=NOVEMBER_END, terms=SITE_TERMS
    )

    if is_refused:
        with pytest.raises(UnusualCostError) as refused:
            review()
        assert (refused.value.field, refused.value.facts["usual"]) == (
            "acknowledgement",
            "2.0000000000000000",
        )
        november.refresh_from_db()
        assert (november.state, Invoice.objects.filter(period=november).count()) == ("open", 0)
    reviewed = review(acknowledgement=" A new cluster. " if is_refused else "")

    note = "A new cluster." if is_refused else ""
    assert (reviewed.state, reviewed.acknowledgement) == ("review", note)
    entry = AuditEntry.objects.get(action="billing:period:review", object_id=str(november.pk))
    assert entry.facts.get("acknowledgement", "") == note
    assert (
        reopen_period(
            period_id=november.pk, reason="x", actor=FAYE, at=NOVEMBER_END
        ).acknowledgement
        == ""
    )


def test_an_unusual_month_is_not_finalized_without_its_review() -> None:
    november = costly_november(month_of_use([("llm", 3600)]), times=4)
    unseen = draft_invoice(period_id=november.pk, actor=DORA, at=NOVEMBER_END, terms=SITE_TERMS)

    with pytest.raises(UnusualCostError):
        finalize_invoice(invoice_id=unseen.pk, actor=ERIC, at=NOVEMBER_END, terms=SITE_TERMS)

    november.refresh_from_db()
    unseen.refresh_from_db()
    assert (november.state, unseen.state, unseen.number) == ("open", "draft", None)

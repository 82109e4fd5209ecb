"""Corrections of sealed hours are charged once, at the hour's price, into a month that is open."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from billing.models import AccrualException, AccruedCorrection, BillingPeriod, Charge
from billing.selectors.pending import count_unaccrued_corrections, pending_correction_ids
from billing.services.accrual import (
    WINDOWS_PER_CALL_MAX,
    AccrualResult,
    accrue_corrections,
    accrue_windows,
)
from billing.services.pricing.prices import set_price
from billing.tasks import accrue_late as sweep
from billing.tasks import tick, tick_accrual
from metering.domain.corrections.correction import CorrectionState
from metering.models import MeteringWindow
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    DORA,
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    make_price,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START, make_organization, make_project
from tests.support.shared_rows import shared_rows

NOTHING = AccrualResult(windows=0, complete=0, charges=0, unit_seconds=0, exceptions=0)

pytestmark = pytest.mark.django_db


@shared_rows
def ledger() -> Ledger:
    """An organization whose small units cost 2.00."""
    return make_ledger()


@shared_rows
def window(ledger: Ledger) -> MeteringWindow:
    """The month's first hour, sealed and accrued with one pod of LLM in it."""
    made = sealed_window(ledger.cluster, [Use(ledger.llm, 3600)])
    accrue_everything()
    return made


def charges() -> list[tuple[int, str, str, bool]]:
    """Return unit-seconds, price, month and whether it corrects, oldest charge first."""
    return [
        (c.unit_seconds, f"{c.unit_price:.2f}", c.period.label, c.correction_id is not None)
        for c in Charge.objects.select_related("period").order_by("pk")
    ]


def test_late_use_is_charged_beside_what_was_metered(
    ledger: Ledger, window: MeteringWindow
) -> None:
    correction = correct(window, ledger.llm, 600, 300)

    result = accrue_corrections(correction_ids=[correction.pk], actor=TICK, at=AT)

    assert result == AccrualResult(windows=1, complete=1, charges=1, unit_seconds=900, exceptions=0)
    assert charges() == [(3600, "2.00", "2026-10", False), (900, "2.00", "2026-10", True)]
    late = Charge.objects.get(correction_id=correction.pk)
    assert (late.window_id, late.window_start, late.owner) == (window.pk, MONTH_START, "carol")
    done = AccruedCorrection.objects.get()
    assert (done.correction_id, done.window_id, done.window_start) == (
        correction.pk,
        window.pk,
        MONTH_START,
    )
    assert (done.usage_unit_seconds, done.charged_unit_seconds, done.is_complete) == (
        900,
        900,
        True,
    )
    entry = AuditEntry.objects.get(action="billing:charge:accrue_late")
    assert entry.facts == {
        "corrections": [str(correction.pk)],
        "complete": 1,
        "charges": 1,
        "unit_seconds": 900,
        "exceptions": 0,
    }


def test_what_is_taken_away_is_a_negative_charge(ledger: Ledger, window: MeteringWindow) -> None:
    assert accrue_late(correct(window, ledger.llm, -1200)) == 1

    assert charges() == [(3600, "2.00", "2026-10", False), (-1200, "2.00", "2026-10", True)]


def test_the_price_is_that_of_the_corrected_hour(ledger: Ledger, window: MeteringWindow) -> None:
    set_price(
        price_book=ledger.book,
        size="small",
        unit_price=Decimal(5),
        valid_from=MONTH_START + HOUR,
        actor=DORA,
        at=AT,
    )

    accrue_late(correct(window, ledger.llm, 600))

    assert charges()[-1] == (600, "2.00", "2026-10", True)


def test_once_its_month_is_in_review_it_goes_into_the_next_open_one(
    ledger: Ledger, window: MeteringWindow
) -> None:
    BillingPeriod.objects.filter(label="2026-10").update(state="review", reviewed_at=AT)

    accrue_late(correct(window, ledger.llm, 600))

    assert charges()[-1] == (600, "2.00", "2026-11", True)
    assert Charge.objects.latest("pk").window_start == MONTH_START


def test_accruing_again_changes_nothing(ledger: Ledger, window: MeteringWindow) -> None:
    correction = correct(window, ledger.llm, 600)
    accrue_late(correction)
    entries = AuditEntry.objects.count()

    again = accrue_corrections(correction_ids=[correction.pk], actor=TICK, at=AT + HOUR)

    assert again == NOTHING
    assert len(charges()) == 2
    assert AuditEntry.objects.count() == entries


def test_two_corrections_of_the_same_use_are_two_charges(
    ledger: Ledger, window: MeteringWindow
) -> None:
    both = [correct(window, ledger.llm, 600), correct(window, ledger.llm, 600)]

    assert accrue_late(*both) == 2

    assert [c[0] for c in charges()] == [3600, 600, 600]


def test_the_window_itself_is_accrued_without_its_corrections(ledger: Ledger) -> None:
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 3600)])
    correction = correct(window, ledger.llm, 600)

    first = accrue_windows(window_ids=[window.pk], actor=TICK, at=AT)
    assert (first.charges, first.unit_seconds, first.complete) == (1, 3600, 1)

    assert accrue_late(correction) == 1
    assert accrue_windows(window_ids=[window.pk], actor=TICK, at=AT) == NOTHING


def test_what_only_is_proposed_is_not_charged(ledger: Ledger, window: MeteringWindow) -> None:
    proposed = correct(window, ledger.llm, 600, state=CorrectionState.PROPOSED)

    assert accrue_late(proposed) == 0

    assert pending_correction_ids(limit=9) == []
    assert len(charges()) == 1
    assert not AccruedCorrection.objects.exists()


def test_parts_that_cancel_out_within_a_correction_are_no_charge(
    ledger: Ledger, window: MeteringWindow
) -> None:
    assert accrue_late(correct(window, ledger.llm, -600, 600)) == 0

    assert AccruedCorrection.objects.get().is_complete
    assert pending_correction_ids(limit=9) == []


def test_late_use_without_a_price_waits_for_one(ledger: Ledger, window: MeteringWindow) -> None:
    correction = correct(window, ledger.llm, 600, size="large")

    assert accrue_late(correction) == 0

    [found] = AccrualException.objects.all()
    assert (found.code, found.unit_seconds, found.correction_id) == (
        "no_price",
        600,
        correction.pk,
    )
    assert (pending_correction_ids(limit=9), count_unaccrued_corrections()) == ([], 1)
    make_price(ledger.book, "9.00", size="large")
    assert pending_correction_ids(limit=9) == [correction.pk]
    assert accrue_late(correction) == 1
    found.refresh_from_db()
    assert found.resolved_at == AT
    assert (pending_correction_ids(limit=9), count_unaccrued_corrections()) == ([], 0)


def test_metered_and_corrected_use_without_a_price_are_distinguished(ledger: Ledger) -> None:
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 60, size="large")])
    accrue_everything()

    accrue_late(correct(window, ledger.llm, 600, size="large"))

    held = AccrualException.objects.order_by("unit_seconds")
    assert [(e.unit_seconds, e.correction_id is None) for e in held] == [(60, True), (600, False)]


def test_parts_that_cancel_out_without_a_price_stay_open_until_there_is_one(
    ledger: Ledger, window: MeteringWindow
) -> None:
    """Unequal sizes may add up to nothing; that is not the same as being charged."""
    accrue_late(correct(window, ledger.llm, -600, 600, size="large"))

    assert not AccruedCorrection.objects.get().is_complete


def test_the_sweep_finds_and_charges_what_is_posted(ledger: Ledger, window: MeteringWindow) -> None:
    correct(window, ledger.llm, 600)

    assert tick(at=AT, actor=TICK).corrections == 1
    assert sweep(at=AT, actor=TICK) == 0
    correct(window, ledger.llm, 300)
    tick_accrual()

    assert [c[0] for c in charges()] == [3600, 600, 300]


def test_what_does_not_exist_is_left_out() -> None:
    assert accrue_corrections(correction_ids=[new_id()], actor=TICK, at=AT) == NOTHING


def test_more_than_a_transaction_takes_is_refused() -> None:
    ids = [new_id() for _ in range(WINDOWS_PER_CALL_MAX + 1)]

    with pytest.raises(ValueError, match="At most 200 corrections"):
        accrue_corrections(correction_ids=ids, actor=TICK, at=AT)


def test_statements_do_not_grow_with_corrections_and_tenants(ledger: Ledger) -> None:
    window = sealed_window(ledger.cluster, [Use(ledger.llm, 3600)])
    few = [correct(window, ledger.llm, 60)]
    others = [make_project(make_organization(f"org-{n}"), "p") for n in range(10)]
    many = [correct(window, project, 60, 70, 80) for project in others for _ in range(2)]
    accrue_everything()

    def statements(corrections: list[object]) -> int:
        with CaptureQueriesContext(connection) as asked:
            accrue_late(*corrections)  # type: ignore[arg-type]
        return len(asked)

    accrue_late(correct(window, ledger.llm, 1))
    assert statements(list(few)) == statements(list(few)) + 1  # Its audit entry.
    first = statements([correct(window, ledger.llm, 61)])
    # New organizations get their periods, and one entry says so, in a savepoint.
    assert statements(list(many)) <= first + 7


@pytest.mark.parametrize(
    "change",
    [
        lambda: Charge.objects.update(correction_id=None),
        lambda: Charge.objects.update(correction_id=new_id()),
        lambda: AccruedCorrection.objects.update(usage_unit_seconds=1),
        lambda: AccruedCorrection.objects.all().delete(),
    ],
    ids=["unmark", "mark otherwise", "change the accrual", "delete the accrual"],
)
def test_what_was_charged_is_frozen(
    ledger: Ledger, window: MeteringWindow, change: Callable[[], object]
) -> None:
    accrue_late(correct(window, ledger.llm, 600))

    with pytest.raises(DatabaseError), transaction.atomic():
        change()

    assert charges()[-1][0] == 600


def test_only_a_correction_makes_a_negative_charge(window: MeteringWindow) -> None:
    charge = Charge.objects.get(window_id=window.pk)
    charge.pk, charge.owner, charge.unit_seconds = None, "nobody", -1

    with pytest.raises(IntegrityError, match="only_a_correction"), transaction.atomic():
        charge.save(force_insert=True)

    assert Charge.objects.count() == 1


def test_a_charge_of_a_correction_is_unique_by_it(ledger: Ledger, window: MeteringWindow) -> None:
    accrue_late(correct(window, ledger.llm, 600))
    charge = Charge.objects.latest("pk")
    charge.pk = None
    charge.created_at = AT + timedelta(hours=1)

    with (
        pytest.raises(IntegrityError, match="billing_charge_2026_10_window_id"),
        transaction.atomic(),
    ):
        charge.save(force_insert=True)

    assert Charge.objects.count() == 2

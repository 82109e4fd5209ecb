"""The demo's month waits for slow workers, says how far they are, and ends no server."""

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
import time_machine
from rich.console import Console
from rich.progress import Progress

from billing.domain.documents.carrying import due_of
from billing.models import OpeningBalance, Payment
from metering.models import MeteringWindow
from simulator.demo.month import (
    WHOLE_MONTH,
    DemoClock,
    invoice_month,
    meter_month,
    settle_month,
)
from simulator.demo.plan import FINANCE_ADMIN, FINANCE_REVIEWER, OLD_DEBT, PAYER
from simulator.demo.world import CLUSTERS
from tests.billing.services.test_closing import NOVEMBER_END, costly_november
from tests.simulator.demo.test_restarts import WORLD, make_hour
from tests.support.billing.late import draft, finalize
from tests.support.billing.ledger import month_of_use
from tests.support.builders import make_organization, make_user

pytestmark = pytest.mark.django_db

HALF_AN_HOUR = 1800


class FakeTime:
    """Time that passes only while somebody waits; at a second, something happens."""

    def __init__(self, *, at_second: float, happens: Callable[[], object]) -> None:
        self._seconds = 0.0
        self._at_second = at_second
        self._happens = happens

    def monotonic(self) -> float:
        return 1_000_000 + self._seconds

    def sleep(self, seconds: float) -> None:
        self._seconds += seconds
        if self._seconds == self._at_second:
            self._happens()


def seal_everything() -> None:
    for window in MeteringWindow.objects.filter(state="open"):
        window.state, window.sealed_at, window.as_of = "sealed", window.start_at, window.start_at
        window.save(update_fields=["state", "sealed_at", "as_of"])


@pytest.fixture
def standing_still() -> None:
    """Make a month of which one hour of two is sealed, on either cluster."""
    for slug in CLUSTERS:
        make_hour(slug, "sealed", "open")


def metered_lines(*, is_terminal: bool) -> list[str]:
    """Return the lines that are printed while nothing is sealed for half an hour."""
    console = Console(file=io.StringIO(), width=200, force_terminal=is_terminal, color_system=None)
    passing = FakeTime(at_second=HALF_AN_HOUR, happens=seal_everything)
    clock = DemoClock(monotonic=passing.monotonic, sleep=passing.sleep)
    with Progress(console=console, disable=True) as progress:
        meter_month(WORLD, progress, clock=clock)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.soak
@pytest.mark.usefixtures("standing_still")
def test_a_standstill_ends_nothing_and_says_once_a_minute_what_to_do() -> None:
    lines = metered_lines(is_terminal=True)

    assert [line.partition(" The servers")[0] for line in lines] == [
        f"No hour was sealed for {seconds} s." for seconds in range(60, HALF_AN_HOUR, 60)
    ]
    assert "The servers run on" in lines[0]
    assert "var/log/worker.log" in lines[0]
    assert not MeteringWindow.objects.exclude(state="sealed").exists()


@pytest.mark.soak
@pytest.mark.usefixtures("standing_still")
def test_where_no_bar_can_be_shown_a_line_is_printed_every_ten_seconds() -> None:
    lines = metered_lines(is_terminal=False)

    assert lines.count("Metering: 2 of 4 hours.") == HALF_AN_HOUR / 10


def test_a_month_that_costs_much_more_than_the_one_before_is_invoiced_all_the_same() -> None:
    november = costly_november(month_of_use([("llm", 3600)], slug="contoso"), times=4)
    for name in (FINANCE_ADMIN, FINANCE_REVIEWER):
        make_user(name)

    with time_machine.travel(NOVEMBER_END, tick=False):
        (invoice,) = invoice_month(replace(WORLD, month=11).label, Progress(disable=True))

    november.refresh_from_db()
    assert (november.state, november.acknowledgement) == ("closed", WHOLE_MONTH)
    assert (invoice.state, invoice.drafted_by) == ("final", FINANCE_ADMIN)


def test_one_invoice_is_paid_and_one_old_debt_taken_over_however_often_it_starts() -> None:
    month = month_of_use([("llm", 3600)], slug=PAYER, billing_currency="USD")
    invoice = finalize(draft(month.organization, "2026-10"))
    make_organization(OLD_DEBT.organization, billing_currency="EUR")
    make_user(FINANCE_ADMIN)

    for _ in range(2):
        settle_month([invoice])

    payment = Payment.objects.get(kind="receipt")
    assert (payment.organization, payment.amount) == (
        month.organization,
        due_of(invoice.document).amount,
    )
    assert payment.allocations.get().document_id == invoice.pk
    debt = OpeningBalance.objects.get()
    assert (debt.organization.slug, f"{debt.amount:.2f}") == ("contoso", "1250.00")

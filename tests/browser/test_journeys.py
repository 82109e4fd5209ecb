"""How many clicks the jobs of people take, and the same by keyboard alone."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator

from billing.models import DailyCost
from tests.browser.conftest import Visit
from tests.browser.world import make_world
from tests.support.billing.office import Office
from tests.support.sampling import soaked

TABS_MAX = 150
"""Of one page: whatever is further away is not reached by a keyboard in practice."""


class Hand:
    """One person's way through pages: each click is counted.

    Args:
        visit: The page.
        by_keyboard: Whether links and buttons are reached by Tab and pressed by Enter.
    """

    def __init__(self, visit: Visit, *, by_keyboard: bool = False) -> None:
        """Nothing is clicked yet."""
        self.visit = visit
        self.by_keyboard = by_keyboard
        self.clicks = 0

    def click(self, target: Locator) -> None:
        """Press a link or a button, and wait for the page that follows."""
        self.clicks += 1
        with self.visit.page.expect_navigation():
            self._press(target)

    def open(self, target: Locator) -> None:
        """Press what opens on the same page."""
        self.clicks += 1
        self._press(target)

    def _press(self, target: Locator) -> None:
        if not self.by_keyboard:
            target.click()
            return
        target.wait_for()
        element = target.element_handle()
        for _ in range(TABS_MAX):
            self.visit.page.keyboard.press("Tab")
            if self.visit.page.evaluate("one => one === document.activeElement", element):
                outline = target.evaluate("one => getComputedStyle(one).outlineStyle")
                assert outline != "none", "what has the focus is not marked"
                self.visit.page.keyboard.press("Enter")
                return
        pytest.fail(f"{target} is not reached within {TABS_MAX} times Tab")

    def link(self, name: str | re.Pattern[str]) -> Locator:
        """Return the first link of the page with a name."""
        return self.visit.page.get_by_role("link", name=name).first

    def button(self, name: str) -> Locator:
        """Return the first button of the page with a name."""
        return self.visit.page.get_by_role("button", name=name).first


@pytest.fixture(params=["keyboard", soaked("pointer")])
def hand(request: pytest.FixtureRequest, visit: Visit) -> Hand:
    return Hand(visit, by_keyboard=request.param == "keyboard")


def make_last_week() -> Office:
    office = make_world()
    cost = DailyCost.objects.filter(organization=office.cast.acme)[0]
    cost.pk, cost.day = None, datetime.now(UTC).date() - timedelta(days=2)
    cost.save()
    return office


@pytest.fixture(scope="module")
def world() -> Callable[[], object]:
    return make_last_week


@pytest.fixture(scope="module")
def people() -> tuple[str, ...]:
    return ("alice", "bob", "dora")


def test_a_line_leads_to_its_evidence_in_four_clicks(hand: Hand) -> None:
    hand.visit.sign_in("dora")
    hand.visit.go("/admin/billing/invoice/")

    hand.click(hand.visit.page.locator("#result_list tbody th a").first)
    hand.click(hand.link("Small unit, H100 1g.10gb"))
    hand.click(hand.link("Thu 1 Oct 2026"))
    hand.click(hand.link("ns/pod"))

    assert hand.visit.page.get_by_text("Where this comes from").is_visible()
    assert hand.clicks <= 4
    assert hand.visit.errors == []


def test_what_this_month_will_cost_takes_one_click(hand: Hand) -> None:
    hand.visit.sign_in("dora")
    hand.visit.go("/admin/")

    hand.click(hand.visit.page.locator("#nav-sidebar").get_by_role("link", name="Costs"))

    assert hand.visit.page.get_by_text("This month").first.is_visible()
    assert hand.clicks == 1
    assert hand.visit.errors == []


def test_what_one_organization_used_last_week_takes_at_most_four_clicks(hand: Hand) -> None:
    hand.visit.sign_in("dora")
    hand.visit.go("/admin/")

    hand.click(hand.visit.page.locator("#nav-sidebar").get_by_role("link", name="Costs"))
    hand.click(hand.link("Last 7 days"))
    hand.click(hand.visit.page.locator("table").get_by_role("link", name="Acme").first)

    assert "range=last_7_days" in hand.visit.page.url
    assert hand.visit.page.locator("table tbody tr").first.is_visible()
    assert hand.clicks <= 4
    assert hand.visit.errors == []


def test_a_month_is_downloaded_as_one_file_in_two_clicks(hand: Hand) -> None:
    hand.visit.sign_in("dora")
    hand.visit.go("/admin/")

    hand.click(hand.visit.page.locator("#nav-sidebar").get_by_role("link", name="Month close"))
    with hand.visit.page.expect_download() as download:
        hand.open(hand.link("Export month"))

    assert download.value.suggested_filename.endswith(".zip")
    assert hand.clicks == 2
    assert hand.visit.errors == []


def ask_for_quota(visit: Visit) -> Hand:
    """Ask for five large units as the lead, from the home page on."""
    lead = Hand(visit, by_keyboard=True)
    visit.sign_in("bob")
    visit.go("/app/")
    lead.click(lead.link("All limits, and use by person"))
    lead.click(lead.link("Ask for quota for LLM"))
    visit.page.select_option("#size", "large")
    visit.page.fill("#requested_units", "5")
    visit.page.fill("#justification", "A second model.")
    lead.click(lead.button("Send the request"))
    return lead


def credit_a_line(visit: Visit) -> Hand:
    """Draft a credit note as finance, from the list of invoices on."""
    finance = Hand(visit, by_keyboard=True)
    visit.sign_in("dora")
    visit.go("/admin/billing/invoice/")
    finance.click(finance.link(re.compile("^GL-")))
    finance.click(finance.link("Small unit, H100 1g.10gb"))
    finance.click(finance.link("Credit this line"))
    visit.page.get_by_label("Reason").last.fill("A fault of ours.")
    finance.click(finance.button("Draft credit note"))
    return finance


def test_quota_is_asked_for_decided_invoiced_and_credited_by_keyboard(visit: Visit) -> None:
    assert ask_for_quota(visit).clicks == 3

    administrator = Hand(visit, by_keyboard=True)
    visit.sign_in("alice")
    visit.go("/app/")
    administrator.click(administrator.link("5 large for LLM"))
    administrator.click(administrator.button("Approve"))
    assert visit.page.get_by_text("The request is approved at your level.").is_visible()
    assert administrator.clicks == 2

    finance = Hand(visit, by_keyboard=True)
    visit.sign_in("dora")
    visit.go("/admin/billing/invoice/")
    finance.click(visit.page.locator("#result_list tbody th a").first)
    finance.click(finance.button("Finalize"))
    reader = Hand(visit, by_keyboard=True)
    visit.sign_in("bob")
    visit.go("/app/")
    reader.click(reader.link("Invoices"))
    reader.click(reader.link(re.compile("^GL-")))
    assert visit.page.get_by_role("heading", name="Your part of Invoice GL-").is_visible()
    assert reader.clicks == 2

    assert credit_a_line(visit).clicks == 4
    assert visit.page.get_by_text("A fault of ours.").first.is_visible()
    assert visit.errors == []

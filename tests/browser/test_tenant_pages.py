"""From headroom to the invoice, as a lead and an administrator without the admin do it."""

from tests.browser.conftest import Visit

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PAGES = ("/app/", "/app/costs/?month=2026-10", "/app/quota/", "/app/requests/", "/app/invoices/")


def enter(visit: Visit, username: str, *, width: dict[str, int]) -> None:
    """Sign in by the form, in a window of a size."""
    visit.page.context.clear_cookies()
    visit.page.set_viewport_size({"width": width["width"], "height": width["height"]})
    visit.go("/")
    visit.page.fill("input[name=username]", username)
    visit.page.fill("input[name=password]", "correct horse battery")
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.wait_for_url(f"{visit.url}/app/")


def follow(visit: Visit, name: str) -> None:
    """Click a link, and wait for its page."""
    with visit.page.expect_navigation():
        visit.page.get_by_role("link", name=name).first.click()


def press(visit: Visit, name: str) -> None:
    """Click a button, and wait for the page that follows."""
    with visit.page.expect_navigation():
        visit.page.get_by_role("button", name=name).first.click()


def shows(visit: Visit, text: str) -> bool:
    """Whether a page has a text, however its lines are broken."""
    return text in " ".join(visit.page.locator("main").inner_text().split())


def wider_than_the_window(visit: Visit) -> list[str]:
    """Return the pages that must be moved sideways, on a desk or a phone."""
    wide = []
    for path in PAGES:
        visit.go(path)
        for size in (DESK, PHONE):
            visit.page.set_viewport_size({"width": size["width"], "height": size["height"]})
            if visit.page.evaluate("document.documentElement.scrollWidth") > size["width"]:
                wide.append(f"{path} at {size['width']}")
    return wide


def test_quota_goes_from_headroom_by_request_and_decision_to_the_invoice(visit: Visit) -> None:
    enter(visit, "bob", width=DESK)
    follow(visit, "All limits, and use by person")
    follow(visit, "Ask for quota for LLM")
    visit.page.select_option("#size", "large")
    visit.page.fill("#requested_units", "5")
    visit.page.fill("#justification", "A second model.")
    # 5 units x 730 hours x 2.50 EUR: HTMX shows it once the field is left.
    visit.page.get_by_text("9,125.00 EUR").wait_for()
    assert shows(visit, "1 Large may start now.")
    press(visit, "Send the request")
    assert shows(visit, "submitted LLM may hold 5 large in all")

    enter(visit, "alice", width=PHONE)
    follow(visit, "5 large for LLM")
    press(visit, "Approve")
    assert shows(visit, "The request is approved at your level.")
    assert shows(visit, "approved LLM may hold 5 large in all")

    visit.sign_in("dora")
    visit.go("/admin/billing/invoice/")
    with visit.page.expect_navigation():
        visit.page.locator("#result_list tbody th a").first.click()
    press(visit, "Finalize")

    for username, size, amounts in (("bob", PHONE, "2.00 EUR"), ("alice", DESK, "3.00")):
        enter(visit, username, width=size)
        follow(visit, "Invoices")
        follow(visit, "GL-")
        assert shows(visit, f"net of tax {amounts}")
        assert shows(visit, "VISION") == (username == "alice")
        assert wider_than_the_window(visit) == []
    assert visit.errors == []

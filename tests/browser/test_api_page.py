"""The page of the API description in a real browser: searched and tried out by one signed in."""

from playwright.sync_api import Page

from tests.browser.conftest import Visit

SLOW_MS = 60_000
"""The script parses the whole description before it shows the first operation."""


def found(page: Page, text: str) -> list[str]:
    """Return the paths that a search leaves."""
    page.get_by_label("Search operations").fill(text)
    page.wait_for_timeout(1_000)  # The page waits for the end of typing.
    return [
        path.replace("\u200b", "")
        for path in page.locator(".opblock-summary-path").all_inner_texts()
    ]


def try_out(page: Page) -> str:
    """Send the operation that the search left, as the page fills it in; return the status."""
    page.locator(".opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    status = page.locator(".live-responses-table .response-col_status").last
    status.wait_for(timeout=SLOW_MS)
    return status.inner_text().strip()


def test_who_is_signed_in_finds_an_operation_and_tries_it_out(visit: Visit) -> None:
    visit.sign_in("frank")
    answer = visit.go("/api/v1/docs/")
    page = visit.page
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    page.get_by_label("Search operations").wait_for(timeout=SLOW_MS)

    assert found(page, "Deny or admit nothing") == []
    assert "/api/v1/quota-loans/{id}/recall/" in found(page, "end loan now")
    assert found(page, "list_projects") == ["/api/v1/projects/"]
    assert try_out(page) == "200"
    assert found(page, "create_organization") == ["/api/v1/organizations/"]
    assert try_out(page) == "201"
    assert visit.errors == []

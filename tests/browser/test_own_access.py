"""The page of one's own as a person without staff status meets it."""

import pytest

from tests.browser.conftest import Visit


@pytest.mark.parametrize("width", [1440, 800])
def test_a_person_without_staff_status_signs_in_and_gets_a_token(visit: Visit, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.go("/")
    visit.page.fill("input[name=username]", "carol")
    visit.page.fill("input[name=password]", "correct horse battery")
    visit.page.get_by_role("button", name="Sign in").click()
    visit.page.wait_for_url(f"{visit.url}/app/")
    visit.go("/accounts/")

    visit.page.fill("input[name=name]", f"laptop of {width}")
    with visit.page.expect_navigation():
        visit.page.get_by_role("button", name="Issue a token").click()

    text = visit.page.locator("[data-token]").inner_text()
    assert text.startswith("gl_")
    assert visit.page.get_by_role("cell", name=f"laptop of {width}").is_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    visit.page.reload()
    assert visit.page.get_by_role("cell", name=f"laptop of {width}").count() == 1
    answer = visit.go("/accounts/")
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert text not in visit.page.content()
    with visit.page.expect_navigation():
        visit.page.get_by_role("link", name="Change your password").click()
    assert visit.page.get_by_role("button", name="Change the password").is_visible()
    visit.go("/accounts/")
    with visit.page.expect_navigation():
        visit.page.get_by_role("button", name="Sign out").click()
    assert visit.page.get_by_role("button", name="Sign in").is_visible()
    assert visit.errors == []


def test_every_button_of_the_page_is_seen_whole_at_800_pixels(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 800, "height": 900})
    for _ in range(2):
        visit.page.context.clear_cookies()
        visit.go("/accounts/")
        visit.page.fill("input[name=username]", "bob")
        visit.page.fill("input[name=password]", "correct horse battery")
        visit.page.get_by_role("button", name="Sign in").click()
        visit.page.get_by_role("button", name="Sign out").wait_for()

    assert visit.page.get_by_role("button", name="End this one").count() == 1
    wide = "[...document.querySelectorAll('table')].filter("
    wide += "one => one.parentElement.scrollWidth > one.parentElement.clientWidth).length"
    assert visit.page.evaluate(wide) == 0

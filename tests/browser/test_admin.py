"""The admin as a person sees it: signed in by the form, read on the page, worked by buttons."""

import pytest

from tests.browser.conftest import Site, Visit
from tests.support.sampling import sampled

OCTOBER = "/admin/?month=2026-10"
PAGES_OF_EVERY_KIND = {
    "dora": (
        OCTOBER,
        "/admin/billing/invoice/",
        "/admin/billing/price/add/",
        "/admin/billing/charge/waste/",
        "/admin/billing/dailycost/costs/",
        "/admin/quotas/quotarequest/",
        "/admin/tenants/auditentry/",
        "/admin/password_change/",
    ),
    "frank": (
        "/admin/",
        "/admin/auth/user/",
        "/admin/auth/user/add/",
        "/admin/quotas/quotalimit/board/",
        "/admin/quotas/quotalimit/add/",
        "/admin/metering/meteringwindow/",
        "/admin/metering/meteringwindow/calendar/",
        "/admin/metering/meteringexception/",
        "/admin/metering/catalogueversion/",
        "/admin/metering/deviceusage/sharing/",
        "/admin/metering/deviceusage/unbilled/",
        "/admin/tenants/cluster/add/",
        "/admin/tenants/apitoken/add/",
    ),
}
"""A list with and without actions, a form, a page of ours, a dashboard."""
HAS_DRAWN = """canvas => canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0)"""


def test_the_dashboard_shows_organizations_and_a_chart_that_has_drawn(visit: Visit) -> None:
    visit.sign_in("dora")
    visit.go(OCTOBER)

    assert visit.page.get_by_role("cell", name="Acme", exact=True).is_visible()
    assert visit.page.get_by_role("cell", name="Umbrella", exact=True).is_visible()
    canvas = visit.page.locator("canvas").first
    visit.page.wait_for_function(f"({HAS_DRAWN})(document.querySelector('canvas'))")
    assert canvas.evaluate(HAS_DRAWN)
    assert visit.errors == []


@pytest.mark.parametrize("username", sampled(["dora", "frank"], every=2))
def test_pages_of_every_kind_need_nothing_that_the_content_policy_refuses(
    visit: Visit, username: str
) -> None:
    visit.sign_in(username)
    for path in PAGES_OF_EVERY_KIND[username]:
        answer = visit.go(path)
        assert "script-src 'self'" in answer.headers["content-security-policy"], path
        visit.page.wait_for_load_state("networkidle")
    with visit.page.expect_navigation():
        visit.page.goto(f"{visit.url}/admin/tenants/organization/")
        visit.page.locator("#result_list tbody th a").first.click()

    assert visit.errors == []


def test_a_script_or_style_in_a_page_is_not_run(visit: Visit) -> None:
    visit.sign_in("dora")
    visit.go("/admin/")

    visit.page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hasRun = true";
            document.body.append(script);
            const image = "<img src=x onerror='window.hasRun = 1'>";
            document.body.insertAdjacentHTML("beforeend", image);
        }"""
    )

    assert visit.page.evaluate("window.hasRun") is None
    assert any("Content Security Policy" in error for error in visit.errors)


def test_a_capacity_bar_is_as_long_as_its_share_and_has_a_colour(visit: Visit) -> None:
    visit.sign_in("dora")
    visit.go(OCTOBER)

    bar = visit.page.get_by_title("Billed: 75.0 %")

    track = bar.locator("xpath=..").bounding_box()
    drawn = bar.bounding_box()
    assert track is not None
    assert drawn is not None
    assert round(100 * drawn["width"] / track["width"]) == 75
    colors = visit.page.get_by_title("Held back: 5.0 %").evaluate(
        "held => [held, held.parentElement, held.previousElementSibling]"
        ".map(element => getComputedStyle(element).backgroundColor)"
    )
    assert len(set(colors)) == 3


def test_an_invoice_found_from_the_dashboard_opens_its_pdf(visit: Visit) -> None:
    visit.sign_in("dora")
    visit.go(OCTOBER)
    visit.page.get_by_role("cell", name="draft", exact=True).get_by_role("link").click()

    source = visit.page.locator("iframe").get_attribute("src")
    answer = visit.page.context.request.get(f"{visit.url}{source}")

    assert answer.status == 200
    assert answer.headers["content-type"] == "application/pdf"
    assert answer.body().startswith(b"%PDF-")
    assert visit.page.get_by_role("button", name="Finalize").is_visible()


def test_an_exception_is_resolved_with_a_button_and_a_reason(visit: Visit, site: Site) -> None:
    visit.sign_in("frank")
    visit.go(OCTOBER)
    visit.page.get_by_role("link", name="Exception: unbound namespace").click()

    visit.press("Resolve", note="A test of the platform team.")

    assert visit.page.get_by_text("is resolved.").is_visible()
    assert site.fetch("SELECT state, resolution FROM metering_meteringexception") == [
        ("resolved", "A test of the platform team.")
    ]


@pytest.mark.parametrize("width", [1440, 900])
def test_a_request_shows_money_in_words_and_fits_the_window(visit: Visit, width: int) -> None:
    visit.sign_in("dora")
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.go("/admin/quotas/quotarequest/")
    with visit.page.expect_navigation():
        visit.page.locator("#result_list tbody th a").first.click()

    # Six units at 2.50 for 730 hours.
    assert visit.page.get_by_role("cell", name="10,950.00 EUR", exact=True).first.is_visible()
    assert visit.page.get_by_text("A bigger model.").is_visible()
    assert "at_full_use" not in visit.page.content()
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visit.errors == []


@pytest.mark.parametrize("width", [1440, 800])
def test_the_evidence_of_an_hour_is_no_wider_than_the_screen(visit: Visit, width: int) -> None:
    visit.sign_in("frank")
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.go("/admin/metering/meteringwindow/?q=ampere")
    with visit.page.expect_navigation():
        visit.page.locator("#result_list tbody th a").first.click()

    assert visit.page.get_by_text("kube_pod_container_resource_requests").first.is_visible()
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if width == 1440:
        assert visit.page.get_by_role("link", name="Waive the hour").first.is_visible()
    assert not visit.page.get_by_text("Lease owner").is_visible()
    assert visit.errors == []


@pytest.mark.parametrize("width", [1440, 800])
def test_the_enforcement_list_is_cut_off_nowhere(visit: Visit, width: int) -> None:
    visit.sign_in("dora")
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.go("/admin/quotas/enforcementtarget/")

    right = "document.querySelector('#result_list').getBoundingClientRect().right"
    assert visit.page.get_by_text("reinforcement-learning-of-large-arms").is_visible()
    assert visit.page.evaluate(f"{right} <= window.innerWidth - 10")
    assert visit.errors == []


def test_a_card_of_a_list_names_its_columns_as_the_table_does(visit: Visit) -> None:
    visit.sign_in("frank")
    visit.page.set_viewport_size({"width": 390, "height": 900})
    visit.go("/admin/tenants/cluster/")

    label = visit.page.locator("#result_list td[data-label]").last
    style = "cell => getComputedStyle(cell, '::before').textTransform"
    assert label.evaluate(style) == "none"
    assert visit.errors == []


@pytest.mark.parametrize("width", [1440, 800])
def test_what_a_namespace_should_say_wraps_and_is_cut_off_nowhere(visit: Visit, width: int) -> None:
    visit.sign_in("dora")
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.go("/admin/quotas/enforcementtarget/")
    with visit.page.expect_navigation():
        visit.page.locator("#result_list tbody th a").first.click()

    tables = visit.page.locator("table.quota-caps")
    rights = tables.evaluate_all(
        "tables => tables.map(table => [table.scrollWidth, table.parentElement.clientWidth])"
    )
    assert len(rights) == 2
    assert [wide <= headroom for wide, headroom in rights] == [True, True]
    assert visit.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert visit.errors == []


def test_who_shared_devices_is_asked_for_one_cluster_and_a_week(visit: Visit) -> None:
    visit.sign_in("frank")
    visit.go("/admin/")
    visit.page.get_by_role("link", name="Device sharing").click()
    visit.page.select_option("select[name=cluster]", "ampere")
    visit.page.fill("input[name=week]", "2026-10-05")
    with visit.page.expect_navigation():
        visit.page.get_by_role("button", name="Show", exact=True).click()

    assert visit.page.get_by_role("heading", name="5 October 2026 to 12 October 2026").is_visible()
    words = "No two projects were known to be close to each other in Ampere in this time."
    assert visit.page.get_by_text(words).is_visible()
    assert visit.page.locator("select[name=cluster]").input_value() == "ampere"
    assert visit.errors == []


def test_a_quota_request_is_approved_with_a_button(visit: Visit, site: Site) -> None:
    visit.sign_in("frank")
    visit.go("/admin/quotas/quotarequest/")

    visit.press("Approve")

    assert visit.page.get_by_text("is approved.").is_visible()
    assert site.fetch(
        "SELECT request.state, l.limit_units FROM quotas_quotarequest request"
        " JOIN quotas_quotalimit l ON l.project_id = request.project_id"
    ) == [("approved", 6)]


@pytest.mark.soak
def test_no_page_of_the_menu_answers_with_an_error(visit: Visit) -> None:
    for username, offers_tokens in (("dora", False), ("frank", True)):
        visit.sign_in(username)
        visit.go("/admin/")
        links = visit.page.eval_on_selector_all(
            "a[href^='/admin/']", "links => links.map(link => link.getAttribute('href'))"
        )
        pages = {link for link in links if link.count("/") >= 4 and "?" not in link}

        assert len(pages) > 20
        assert ("/admin/tenants/apitoken/" in pages) is offers_tokens
        if username == "frank":
            assert {visit.go(page).status for page in sorted(pages)} == {200}
        visit.page.context.clear_cookies()
    assert visit.errors == []


def test_why_a_line_is_so_takes_four_clicks_from_the_list_of_invoices(visit: Visit) -> None:
    visit.sign_in("dora")
    visit.go("/admin/billing/invoice/")
    links = [
        visit.page.locator("#result_list tbody th a").first,
        visit.page.get_by_role("link", name="Small unit, H100 1g.10gb").first,
        visit.page.get_by_role("link", name="Thu 1 Oct 2026"),
        visit.page.get_by_role("link", name="ns/pod"),
    ]

    for link in links:
        with visit.page.expect_navigation():
            link.click()

    assert visit.page.get_by_text("Where this comes from").is_visible()
    assert visit.page.get_by_text("sealed, metered from").is_visible()
    assert visit.errors == []

"""Every page in a real Chromium: at three widths, light and dark, nothing that axe finds.

A page may not scroll sideways or load anything of another host, has one main landmark, hides its
icons from screen readers, and its tables stay tables from 800 pixels on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Final, Literal

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django.urls import NoReverseMatch, reverse

from billing.models import Invoice
from quotas.models import QuotaRequest
from tests.browser.conftest import Visit
from tests.browser.whole_world import make_whole_world

AXE: Final = files("axe_playwright_python").joinpath("axe.min.js").read_text()
WIDTHS: Final = (1440, 800, 390)
TABLE_WIDTH: Final = 800
HTML_BYTES_MAX: Final = 300 * 1024
Theme = Literal["dark", "light"]
INSIDE: Final = ("data:", "blob:", "chrome:", "chrome-extension:")
"""Addresses that leave no browser: the last two are of its own viewer of PDF files."""
SETTLE_MS: Final = 60
"""Until scripts have drawn a page anew."""
TENANT_PAGES: Final = (
    "/app/",
    "/app/costs/?month=2026-10",
    "/app/costs/?month=2026-10&by=user",
    "/app/quota/",
    "/app/requests/",
    "/app/requests/new/",
    "/app/invoices/",
    "/app/notifications/",
    "/app/tokens/",
    "/app/requests/00000000-0000-0000-0000-000000000000/",
    "/accounts/",
    "/admin/",
)
SAMPLE: Final = {
    "light": (("root", "/admin/billing/invoice/"), ("bob", "/app/costs/?month=2026-10")),
    "dark": (("root", "/admin/billing/price/add/"), ("root", "/admin/quotas/quotalimit/board/")),
}
"""What `make test` looks at."""
NAMED: Final = {
    "root": (
        "/admin/?month=2026-10",
        "/admin/metering/meteringwindow/calendar/?month=2026-10",
        "/admin/billing/",
        "/admin/billing/dailycost/costs/?from=2026-10-01&to=2026-11-01",
        "/admin/metering/meteringwindow/calendar/?month=2026-11",
        "/admin/password_change/",
        "/admin/nothing/",
        "/nothing/",
        "/accounts/",
        "/accounts/password/",
        "/api/v1/docs/",
    ),
    "dora": ("/admin/?month=2026-10", "/accounts/"),
    "alice": TENANT_PAGES,
    "bob": TENANT_PAGES,
    "": ("/accounts/sign-in/", "/accounts/new-password/", "/admin/login/"),
}
"""Pages that are not of a table, by person."""
JUDGE: Final = """async ({width, tables}) => {
    const found = [];
    const root = document.documentElement;
    if (root.scrollWidth > width) {
        const wide = [...document.querySelectorAll("main *, body > *")]
            .filter(one => one.getBoundingClientRect().right > width + 1 && !one.closest(
                ".overflow-x-auto, .scroll, [data-simplebar], .top-scroll"));
        const first = wide.length ? wide[0].outerHTML.slice(0, 120) : "";
        found.push(`scrolls sideways: ${root.scrollWidth} ${first}`);
    }
    if (document.querySelectorAll("main").length !== 1) found.push("has not one main landmark");
    const skip = document.querySelector("body > .skip-link, body > .skip");
    if (!skip) found.push("has no skip link");
    const icons = [...document.querySelectorAll(".material-symbols-outlined")];
    const said = icons.filter(icon => !icon.closest("[aria-hidden=true], [role=button]"));
    if (said.length) found.push(`icon is read out: ${said[0].outerHTML.slice(0, 120)}`);
    if (tables) {
        const shown = [...document.querySelectorAll("table")].filter(one => one.offsetParent);
        const cards = shown.filter(one =>
            getComputedStyle(one).display !== "table" || (one.rows.length
            && getComputedStyle(one.rows[one.rows.length - 1]).display !== "table-row"));
        if (cards.length) found.push(`table is none: ${cards[0].outerHTML.slice(0, 120)}`);
    }
    const result = await axe.run(document, {resultTypes: ["violations"]});
    for (const one of result.violations) {
        const node = one.nodes[0];
        const why = [...node.any, ...node.all, ...node.none].map(check => check.message)[0];
        found.push(`${one.id} (${one.impact}, ${one.nodes.length}): ${node.target} ${why} `
            + node.html.slice(0, 160));
    }
    return found;
}"""


@pytest.fixture(scope="module")
def world() -> Callable[[], object]:
    return make_whole_world


@pytest.fixture(scope="module")
def people() -> tuple[str, ...]:
    return ("alice", "bob", "dora", "root")


@pytest.fixture(scope="module")
def pages(site: object, django_db_blocker: pytest.FixtureRequest) -> list[tuple[str, str]]:  # noqa: ARG001 - The world is there.
    """Return every page as person and address; "" is nobody."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        root = Client()
        root.force_login(User.objects.get(username="root"))
        tables = [
            ("root", path)
            for model in admin.site._registry  # noqa: SLF001 - The one list of the tables.
            for path in paths_of(model)
            if is_page(root, path)
        ]
        rows = paths_of_tenants()
    return [
        *((person, path) for person, paths in NAMED.items() for path in paths),
        *tables,
        *rows,
    ]


def paths_of(model: type[Model]) -> Iterator[str]:
    """Yield the addresses of a table: its list, forms and other pages, with its first row's key."""
    row = model._default_manager.order_by("pk").first()  # noqa: SLF001 - Django's documented model meta.
    for pattern in admin.site._registry[model].get_urls():  # noqa: SLF001 - As above.
        if pattern.name is None or pattern.name.endswith(("_delete", "_history")):
            continue
        parameters = list(pattern.pattern.converters)
        if len(parameters) > 1 or (parameters and row is None):
            continue
        keys = {} if row is None else dict.fromkeys(parameters, row.pk)
        with suppress(NoReverseMatch):
            yield reverse(f"admin:{pattern.name}", kwargs=keys)


def is_page(client: Client, path: str) -> bool:
    """Whether an address answers with a page: not with a file, and not only to a form."""
    answer = client.get(path)
    return answer.status_code == 200 and answer["Content-Type"].startswith("text/html")


def paths_of_tenants() -> list[tuple[str, str]]:
    """Return the pages of one request and one invoice, the whole and a part."""
    request = QuotaRequest.objects.filter(project__slug="llm").latest("created_at")
    final = Invoice.objects.filter(organization__slug="acme").order_by("number").first()
    paths = [reverse("app_request", args=[request.pk])]
    paths += [] if final is None else [reverse("app_invoice", args=[final.pk])]
    return [(person, path) for person in ("alice", "bob") for path in paths]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_of_each_kind_fits_and_is_accessible(visit: Visit, theme: Theme) -> None:
    assert faults_of(visit, SAMPLE[theme], theme) == []


@pytest.mark.soak
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_fits_and_is_accessible(
    pages: list[tuple[str, str]], visit: Visit, theme: Theme
) -> None:
    assert len(pages) > 200

    assert faults_of(visit, pages, theme) == []


def faults_of(visit: Visit, pages: Sequence[tuple[str, str]], theme: Theme) -> list[str]:
    """Return what is wrong with pages at every width."""
    faults: list[str] = []
    visit.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    visit.page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith((visit.url, *INSIDE))
            else faults.append(f"{visit.page.url} loads {asked.url}")
        ),
    )
    for person, path in pages:
        visit.page.context.clear_cookies()
        if person:
            visit.sign_in(person)
        visit.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        answer = visit.go(path)
        visit.page.wait_for_timeout(SETTLE_MS)
        if len(answer.body()) > HTML_BYTES_MAX:
            faults.append(f"{path} has {len(answer.body())} bytes")
        visit.page.evaluate(AXE)
        for width in WIDTHS:
            visit.page.set_viewport_size({"width": width, "height": 900})
            visit.page.wait_for_timeout(SETTLE_MS)
            found = visit.page.evaluate(JUDGE, {"width": width, "tables": width >= TABLE_WIDTH})
            faults += [f"{path} ({person}) at {width}, {theme}: {one}" for one in found]
    return faults

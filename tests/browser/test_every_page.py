"""Every page in a real Chromium: at three widths, light and dark, nothing that axe finds.

A page may not scroll sideways or load anything of another host, has one main landmark, hides its
icons from screen readers, and its tables stay tables from 800 pixels on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal

import pytest
from django.conf import settings
from django.contrib import admin
from django.db.models import Model
from django.template import Template
from django.test import Client
from django.urls import NoReverseMatch, reverse
from django.utils.safestring import SafeString

from billing.models import Invoice
from quotas.models import QuotaRequest
from tests.browser.conftest import Site, Visit
from tests.browser.whole_world import make_whole_world

AXE: Final = files("axe_playwright_python").joinpath("axe.min.js").read_text()
TABLE_WIDTH: Final = 800
HTML_BYTES_MAX: Final = 300 * 1024
Theme = Literal["dark", "light"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
PARTS: Final = 2
"""Of all pages, for as many processes."""
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
ALL: Final = None
CONTRAST: Final = ("color-contrast",)
SIDEBAR: Final = "#nav-sidebar"
"""The links to all tables, half of what a page has: the same on every page of a person."""


@dataclass(frozen=True)
class Look:
    """How a loaded page is looked at.

    Attributes:
        width: Of the window, in pixels.
        is_switched: Whether in the theme that it was not loaded in.
        rules: Which of axe's rules judge it; None for all.
        excluded: What axe passes over.
    """

    width: int
    is_switched: bool
    rules: Sequence[str] | None
    excluded: Sequence[str] = ()


LOOKS: Final = (
    Look(1440, is_switched=False, rules=ALL),
    Look(1440, is_switched=True, rules=CONTRAST, excluded=(SIDEBAR,)),
    Look(800, is_switched=True, rules=()),
    Look(390, is_switched=True, rules=ALL),
)
"""A page is loaded once. A theme changes colours alone, and what is there at 800 pixels is there at
390 as well: no rule of axe finds more in what is left out. Half of the pages are loaded in each
theme, so that the sidebar is judged in both."""
PREPARE: Final = """() => {
    // What fades from one theme to the other has no colour of either.
    const still = new CSSStyleSheet();
    still.replaceSync("*, ::before, ::after { transition: none !important; }");
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
}"""
SWITCH: Final = """theme =>
    document.documentElement.classList.toggle("dark", theme === "dark")
"""
"""The admin's pages have a class for the dark, the tenants' a media query."""
PLANTED: Final = """addEventListener("DOMContentLoaded", () => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`
        :root:not(.dark) .planted-light { color: #888; background: #999; }
        .dark .planted-dark { color: #333; background: #222; }
        .planted-800, .planted-390 { position: absolute; height: 1px; }
        @media (width: 800px) { .planted-800 { width: 1000px; } }
        @media (width: 390px) { .planted-390 { width: 500px; } }
    `);
    document.adoptedStyleSheets = [sheet];
    for (const kind of ["light", "dark", "800", "390"]) {
        const planted = document.createElement("p");
        planted.className = `planted-${kind}`;
        planted.textContent = kind;
        document.querySelector("main").append(planted);
    }
})"""
JUDGE: Final = """async ({width, tables, rules, excluded}) => {
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
    const chosen = rules ? {runOnly: {type: "rule", values: rules}} : {};
    const isJudged = !rules || rules.length;
    const shown = {include: [["html"]], exclude: excluded.map(one => [one])};
    const judged = isJudged && await axe.run(shown, {resultTypes: ["violations"], ...chosen});
    for (const one of judged ? judged.violations : []) {
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
def pages(site: Site, django_db_blocker: pytest.FixtureRequest) -> list[tuple[str, str]]:
    """Return every page as person and address; "" is nobody."""
    named = [(person, path) for person, paths in NAMED.items() for path in paths]
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patching:  # type: ignore[attr-defined]
        tables = [
            ("root", path)
            for model in admin.site._registry  # noqa: SLF001 - The one list of the tables.
            for path in paths_of(model)
        ]
        # What an address answers with shows without its text, which takes most of the time.
        patching.setattr(Template, "render", lambda *_: SafeString(""))
        clients = {person: client_of(site, person) for person in ("root", "alice", "bob")}
        rows = [*tables, *paths_of_tenants()]
        return [*named, *(one for one in rows if is_page(clients[one[0]], one[1]))]


def client_of(site: Site, person: str) -> Client:
    """Return a client with a person's session."""
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = site.sessions[person]
    return client


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


def paths_of_tenants() -> list[tuple[str, str]]:
    """Return the pages of one request and one invoice, the whole and a part."""
    request = QuotaRequest.objects.filter(project__slug="llm").latest("created_at")
    final = Invoice.objects.filter(organization__slug="acme").order_by("number").first()
    paths = [reverse("app_request", args=[request.pk])]
    paths += [] if final is None else [reverse("app_invoice", args=[final.pk])]
    return [(person, path) for person in ("alice", "bob") for path in paths]


@pytest.mark.parametrize("theme", THEMES)
def test_a_page_of_each_kind_fits_and_is_accessible(visit: Visit, theme: Theme) -> None:
    assert faults_of(visit, SAMPLE[theme], loaded=theme) == []


def test_a_fault_of_one_theme_or_one_width_is_found(visit: Visit) -> None:
    visit.page.add_init_script(PLANTED)

    faults = faults_of(visit, [("root", "/admin/billing/invoice/")], loaded="light")

    assert [fault.partition(" (root) ")[2][:41] for fault in faults] == [
        "at 1440, light: color-contrast (serious, ",
        "at 1440, dark: color-contrast (serious, 1",
        "at 800, dark: scrolls sideways: 1000 <p c",
        "at 390, dark: scrolls sideways: 500 <p cl",
        "at 390, dark: color-contrast (serious, 1)",
    ]


@pytest.mark.soak
@pytest.mark.seconds(240)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_page_fits_and_is_accessible(
    pages: list[tuple[str, str]], visit: Visit, part: int
) -> None:
    mine = pages[part::PARTS]
    assert len(mine) > 200 / PARTS

    faults = [
        fault
        for loaded, some in zip(THEMES, (mine[::2], mine[1::2]), strict=True)
        for fault in faults_of(visit, some, loaded=loaded)
    ]
    assert faults == []


def is_page(client: Client, path: str) -> bool:
    """Whether an address answers with a page: not with a file, and not only to a form."""
    answer = client.get(path)
    return answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html")


def faults_of(visit: Visit, pages: Sequence[tuple[str, str]], *, loaded: Theme) -> list[str]:
    """Return what is wrong with pages that are loaded in one theme, and switched to the other."""
    faults: list[str] = []
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
        visit.page.emulate_media(color_scheme=loaded, reduced_motion="reduce")
        visit.page.set_viewport_size({"width": LOOKS[0].width, "height": 900})
        answer = visit.go(path)
        visit.page.wait_for_timeout(SETTLE_MS)
        if len(answer.body()) > HTML_BYTES_MAX:
            faults.append(f"{path} has {len(answer.body())} bytes")
        visit.page.evaluate(AXE)
        visit.page.evaluate(PREPARE)
        for look in LOOKS:
            theme = THEMES[THEMES.index(loaded) - look.is_switched]
            found = findings(visit, look, theme=theme)
            faults += [f"{path} ({person}) at {look.width}, {theme}: {one}" for one in found]
    return faults


def findings(visit: Visit, look: Look, *, theme: Theme) -> list[str]:
    """Return what is wrong with the loaded page as it looks at a width, in a theme."""
    visit.page.set_viewport_size({"width": look.width, "height": 900})
    if look.is_switched:
        visit.page.emulate_media(color_scheme=theme)
        visit.page.evaluate(SWITCH, theme)
    visit.page.wait_for_timeout(SETTLE_MS)
    wanted = {
        "width": look.width,
        "tables": look.width >= TABLE_WIDTH,
        "rules": look.rules,
        "excluded": look.excluded,
    }
    found: list[str] = visit.page.evaluate(JUDGE, wanted)
    return found

"""Every page and every list at 300 organizations, 1,000 projects and 5,000,000 usage rows.

Each admin page, page of tenants and GET of the API is asked 20 times in this process: what the
server needs, without the network. A page that misses is printed; the others only as the slowest.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from bench.bare_lists import list_figures
from bench.harness import Bound, Figure, invariant, is_smoke, ledger_database, measured, measurement
from bench.pages_stage import Readers, make_pages_stage
from config.celery import calm_collector

if TYPE_CHECKING:
    from django.test import Client

TIMES: Final = 1 if is_smoke() else 20
"""Once shows statements and size; the first time takes most statements, for what is cached."""
P95_MAX_MS: Final = 300
STATEMENTS_MAX: Final = 20
HTML_MAX_KIB: Final = 300
REPORT_P95_MAX_MS: Final = 10_000
REPORTS: Final = frozenset(
    f"frank: api/v1/{name}/" for name in ("costs", "reports/unbilled-devices", "usage-summary")
)
"""Sums of a month over every tenant. No page shows them; a tenant's own are held to P95_MAX_MS."""
SLOWEST: Final = 10
NOT_PAGES: Final = re.compile(
    r"(csv|xlsx|pdf|jsonl|zip|parquet|e-invoice|exports?|login|logout|jsi18n|autocomplete"
    r"|password|/r/|/add/)"
)
"""Files, addresses without a page, and forms of new rows, which show none."""
RANGE: Final = "?window_start_from=2026-10-20T00:00:00Z&window_start_before=2026-10-21T00:00:00Z"
SPAN: Final = "from=2026-10-01T00:00:00Z&to=2026-10-31T00:00:00Z"
NEEDED: Final = {
    "reports/device-sharing": f"?{SPAN}",
    "reports/unbilled-devices": f"?{SPAN}",
    "usage-records": RANGE,
    "usage-summary": "?month=2026-10&group_by=project,size",
    "capacity-records": RANGE,
    "costs": "?from=2026-10-01&to=2026-11-01&group_by=project,size",
}
"""Queries that a list asks for."""
LISTS: Final = {
    "metering.UsageRecord": f"/api/v1/usage-records/{RANGE}",
    "tenants.AuditEntry": "/api/v1/audit-entries/",
}
"""Those whose answer is their table's columns, by model: others add up what their twin cannot."""


@dataclass
class Page:
    """An address, its caller, and what it took each time."""

    name: str
    address: str
    client: "Client"
    milliseconds: list[Decimal] = field(default_factory=list)
    statements: int = 0
    kibibytes: int = 0
    status: int = 0

    @property
    def p95(self) -> Decimal:
        """The nearest rank: of 20 times the second slowest."""
        ordered = sorted(self.milliseconds)
        return ordered[-(-95 * len(ordered) // 100) - 1]

    @property
    def misses(self) -> list[Figure]:
        """What is over its limit."""
        return [figure for figure in self.figures() if not figure.is_ok]

    def figures(self) -> Iterator[Figure]:
        """Yield its three figures."""
        limit = Decimal(REPORT_P95_MAX_MS if self.name in REPORTS else P95_MAX_MS)
        yield Figure(f"pages.{self.name} p95", self.p95.quantize(Decimal(1)), "ms", limit=limit)
        yield invariant(
            f"pages.{self.name}", self.statements, "statements", STATEMENTS_MAX, Bound.AT_MOST
        )
        yield invariant(f"pages.{self.name}", self.kibibytes, "KiB", HTML_MAX_KIB, Bound.AT_MOST)


def run() -> Iterator[Figure]:
    """Yield what misses, and the most of each."""
    with ledger_database():
        yield from _measure()


def _measure() -> Iterator[Figure]:
    from billing.models import Charge  # noqa: PLC0415 - Django is set up by now.
    from metering.models import UsageRecord  # noqa: PLC0415
    from tenants.models import Organization, Project  # noqa: PLC0415

    with measured() as made:
        readers = make_pages_stage()
    yield measurement("pages.stage", made.seconds, "s")
    for model in (Organization, Project, UsageRecord, Charge):
        name = model._meta.verbose_name_plural  # noqa: SLF001 - Django's documented model meta.
        yield measurement(f"pages.{name}", model.objects.count(), "rows")
    pages = list(_pages(readers))
    calm_collector()  # As a web server does.
    for page in pages:
        for _ in range(TIMES):
            _ask(page)
        if page.status != HTTPStatus.OK:
            yield measurement(f"pages.{page.name} is not measured: it answers", page.status, "")
    yield from _figures([page for page in pages if page.status == HTTPStatus.OK])
    yield from list_figures(_client(readers.frank), readers.frank, LISTS)


def _pages(readers: Readers) -> Iterator[Page]:
    yield from _admin_pages(_client(readers.frank))
    for name, person in (("frank", readers.frank), ("alice", readers.alice)):
        yield from _lists(_client(person), name)
        yield _usage_of_project(_client(person), name)
    for name, person in (("alice", readers.alice), ("bob", readers.bob)):
        yield from _tenant_pages(_client(person), name)


def _figures(shown: Sequence[Page]) -> Iterator[Figure]:
    yield measurement("pages.asked", len(shown), "pages")
    yield from (figure for page in shown for figure in page.misses)
    for page in sorted(shown, key=lambda one: one.p95, reverse=True)[:SLOWEST]:
        yield measurement(f"pages.{page.name} p95", page.p95, "ms")
    for name in ("statements", "kibibytes"):
        most = max(shown, key=lambda one: getattr(one, name))
        yield measurement(f"pages.most {name}: {most.name}", getattr(most, name), name)
    missed = sum(bool(page.misses) for page in shown)
    yield invariant("pages.missed", missed, "pages", 0)


def _client(person: Any) -> "Client":  # noqa: ANN401 - A user.
    from django.test import Client  # noqa: PLC0415 - Django is set up by now.

    client = Client(headers={"host": "127.0.0.1"})
    client.force_login(person)
    return client


def _ask(page: Page) -> None:
    """Ask once, and note time, statements and size."""
    from django.db import connection  # noqa: PLC0415 - Django is set up by now.

    statements = 0

    def count(execute: Any, *arguments: Any) -> Any:  # noqa: ANN401 - Django's wrapper.
        nonlocal statements
        statements += 1
        return execute(*arguments)

    with connection.execute_wrapper(count):
        begin = time.perf_counter_ns()
        answer = page.client.get(page.address)
        content = b"".join(answer) if answer.streaming else answer.content
        took = time.perf_counter_ns() - begin
    page.milliseconds.append(Decimal(took) / 1_000_000)
    page.status = answer.status_code
    page.statements = max(page.statements, statements)
    if "html" in answer["Content-Type"]:
        page.kibibytes = max(page.kibibytes, len(content) // 1024)


def _admin_pages(client: "Client") -> Iterator[Page]:
    """Yield every address of the admin without an argument, and one row's page of each table."""
    from django.contrib import admin  # noqa: PLC0415 - Django is set up by now.

    for route in sorted(_routes("admin/")):
        if "<" not in route:
            yield Page(route, f"/{route}", client)
    for model in admin.site._registry:  # noqa: SLF001 - The site has no other list.
        meta = model._meta  # noqa: SLF001 - Django's documented model meta.
        row = model._default_manager.order_by("-pk").first()  # noqa: SLF001 - As above.
        if row is not None:
            base = f"admin/{meta.app_label}/{meta.model_name}"
            yield Page(f"{base}/<id>/", f"/{base}/{row.pk}/change/", client)


def _lists(client: "Client", person: str) -> Iterator[Page]:
    """Yield every GET of the API without an argument, and the first row of each list."""
    for route in sorted(_routes("api/v1/")):
        if "<" in route:
            continue
        noun = route.removeprefix("api/v1/").rstrip("/")
        address = f"/{route}{NEEDED.get(noun, '')}"
        yield Page(f"{person}: {route}", address, client)
        answer = client.get(address)
        body = answer.json() if "json" in answer.get("Content-Type", "") else []
        rows = body.get("results") if isinstance(body, dict) else None
        if rows and "id" in rows[0]:
            yield Page(f"{person}: {route}<id>/", f"/{route}{rows[0]['id']}/", client)


def _usage_of_project(client: "Client", person: str) -> Page:
    """Return the usage of one project, of all hours: records are not indexed by project."""
    from tenants.models import Project  # noqa: PLC0415 - Django is set up by now.

    project = Project.objects.get(slug="project-0")
    return Page(
        f"{person}: usage of a project", f"/api/v1/usage-records/?project={project.pk}", client
    )


def _tenant_pages(client: "Client", person: str) -> Iterator[Page]:
    from billing.models import Invoice  # noqa: PLC0415 - Django is set up by now.

    for route in sorted(_routes("app/")):
        if "<" not in route:
            yield Page(f"{person}: {route}", f"/{route}", client)
    invoice = Invoice.objects.get(
        organization__slug="tenant-0", state="final", kind="invoice", period__label="2026-10"
    )
    yield Page(f"{person}: app/invoices/<id>/", f"/app/invoices/{invoice.pk}/", client)


def _routes(prefix: str) -> Iterator[str]:
    """Yield the addresses below a prefix, but for files."""
    from django.urls import URLPattern, get_resolver  # noqa: PLC0415 - Django is set up by now.

    def walk(resolver: Any, before: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Django's.
        for pattern in resolver.url_patterns:
            route = before + str(pattern.pattern)
            if isinstance(pattern, URLPattern):
                yield route, pattern
            else:
                yield from walk(pattern, route)

    for route, pattern in walk(get_resolver(), ""):
        actions = getattr(pattern.callback, "actions", {"get": ""})
        if route.startswith(prefix) and "get" in actions and not NOT_PAGES.search(route):
            yield route

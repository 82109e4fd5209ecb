"""The service behind a real socket on a database of its own, and a real browser before it.

The world is committed once for the module's tests. They look at pages only: the database layer
refuses a thread that a browser's event loop runs in.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import psycopg
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.test import Client
from playwright.sync_api import Browser, Page, Response, sync_playwright

from embedded.migrated import TEMPLATE
from embedded.postgres import EmbeddedPostgres
from embedded.postgres_data import SUPERUSER
from tests.browser.world import make_world
from tests.conftest import TEST_DATABASE, use_database

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
DATABASE = "browser_tests"
WAIT_MS = 10_000


@dataclass(frozen=True)
class Site:
    """A running service: where it is, and a superuser's way to look at what it stored."""

    url: str
    superuser_url: str
    sessions: dict[str, str]

    def fetch(self, query: str) -> list[tuple[object, ...]]:
        """Return what is committed."""
        with psycopg.connect(self.superuser_url) as connection:
            return connection.execute(query.encode()).fetchall()


@dataclass
class Visit:
    """One person's open page, and everything that went wrong while it was looked at."""

    page: Page
    site: Site
    errors: list[str]

    @property
    def url(self) -> str:
        """Return where the site is."""
        return self.site.url

    def sign_in(self, username: str) -> None:
        """Go on as a person with a session."""
        self.page.context.add_cookies(
            [
                {
                    "name": settings.SESSION_COOKIE_NAME,
                    "value": self.site.sessions[username],
                    "url": self.url,
                }
            ]
        )

    def go(self, path: str) -> Response:
        """Open a page of the site."""
        answer = self.page.goto(f"{self.url}{path}", wait_until="load")
        assert answer is not None
        return answer

    def press(self, button: str, *, note: str = "") -> None:
        """Choose the first row and press a button of its list."""
        self.page.locator("input[name=_selected_action]").first.check()
        self.page.select_option("select[name=action]", label=button)
        if note:
            self.page.fill("input[name=note]", note)
        with self.page.expect_navigation():
            self.page.locator("button[name=index]").first.click()


@pytest.fixture(scope="module")
def world() -> Callable[[], object]:
    """Return what fills the database; a module may fill it with more."""
    return make_world


@pytest.fixture(scope="module")
def people() -> tuple[str, ...]:
    """Return whose sessions have begun; the others sign in by the form, and count them."""
    return ("ann", "dora", "frank")


@pytest.fixture(scope="module")
def site(
    world: Callable[[], object],
    people: tuple[str, ...],
    postgres: EmbeddedPostgres,
    django_db_setup: None,  # noqa: ARG001 - It points Django at the tests' server.
    django_db_blocker: pytest.FixtureRequest,
) -> Iterator[Site]:
    """Serve the whole site as the runtime role on a free port."""
    superuser = postgres.url(role=SUPERUSER, database="postgres")
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
        postgres.create_database(connection, DATABASE, template=TEMPLATE)
    use_database(postgres, DATABASE)
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        world()
        sessions = {
            user.username: begin_session(user) for user in User.objects.filter(username__in=people)
        }
        server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
        server.set_app(StaticFilesHandler(get_wsgi_application()))
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield Site(
            url=f"http://127.0.0.1:{server.server_port}",
            superuser_url=postgres.url(role=SUPERUSER, database=DATABASE),
            sessions=sessions,
        )
        server.shutdown()
        server.server_close()
        thread.join()
    use_database(postgres, TEST_DATABASE)
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {DATABASE} WITH (FORCE)")


def begin_session(user: User) -> str:
    """Return the key of a session that a person has signed in to."""
    client = Client()
    client.force_login(user)
    return client.cookies[settings.SESSION_COOKIE_NAME].value


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Browser]:  # noqa: ARG001 - The world is made before the loop runs.
    """Start the system's chromium once."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module", autouse=True)
def chromium_is_there() -> None:
    """Leave the module out where there is no chromium; CI has to have one."""
    if CHROMIUM.exists():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{CHROMIUM} is missing, and CI leaves no test out.")
    pytest.skip(f"{CHROMIUM} is missing.")


@pytest.fixture
def visit(site: Site, browser: Browser) -> Iterator[Visit]:
    """Open a window of its own."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    made = Visit(page=page, site=site, errors=[])
    page.on(
        "console",
        lambda said: (
            made.errors.append(f"{page.url}: {said.text}") if said.type == "error" else None
        ),
    )
    page.on("pageerror", lambda error: made.errors.append(f"{page.url}: {error}"))
    page.on(
        "response",
        lambda answer: (
            made.errors.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None
        ),
    )
    yield made
    context.close()

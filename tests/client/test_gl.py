"""gl against the service itself: its calls are answered in the transaction of the test."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.models import User
from django.test import Client

from billing.domain.period import Month
from tenants.domain.actors import system_actor
from tenants.services.identity.tokens import issue_token
from tests.support.cast import Cast, make_cast
from tests.support.flows.ledger_estate import make_final
from tests.support.quotas.builders import make_limit
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client

ROOT = Path(__file__).resolve().parents[2]
REASON = "Evaluation runs."


@dataclass
class Terminal:
    """Runs gl with a token of a person, and returns what it printed."""

    capture: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    main: Callable[..., int]

    def run(self, who: User, *words: str) -> tuple[int, str, str]:
        """Return the exit status of a command, and what it printed on both streams."""
        self.monkeypatch.setenv("GL_TOKEN", _token(who))
        status = self.main(list(words), transport=httpx.MockTransport(_carry))
        printed = self.capture.readouterr()
        return status, printed.out, printed.err

    def rows(self, who: User, *words: str) -> Any:  # noqa: ANN401 - As JSON is.
        """Return what a command prints with --json."""
        status, out, err = self.run(who, *words, "--json")
        assert (status, err) == (0, "")
        return json.loads(out)


@pytest.fixture(scope="session")
def generated() -> None:
    """Have the typed client: it is made from the committed OpenAPI file, once for its content."""
    command = [sys.executable, str(ROOT / "bin" / "client.py"), "generate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def terminal(
    generated: None,  # noqa: ARG001 - It must be there to be imported.
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Terminal:
    monkeypatch.setenv("GL_URL", "http://testserver/api/v1")
    return Terminal(capsys, monkeypatch, import_module("gl.main").main)


def _carry(request: httpx.Request) -> httpx.Response:
    """Return the answer of the service, without leaving the test's transaction."""
    response = Client().generic(
        request.method,
        request.url.raw_path.decode(),
        data=request.content,
        content_type=request.headers.get("Content-Type", "application/json"),
        headers=dict(request.headers),
    )
    return httpx.Response(
        response.status_code, headers=dict(response.headers), content=response.getvalue()
    )


def _token(who: User) -> str:
    at = datetime.now(tz=UTC)
    return issue_token(
        name="gl",
        user=who,
        expires_at=at + timedelta(days=1),
        scopes=(),
        actor=system_actor("tests"),
        at=at,
    ).text


def ask(terminal: Terminal, who: User, units: str = "8", *words: str) -> dict[str, Any]:
    (asked,) = terminal.rows(
        who, "quota", "request", "llm", "medium", units, "--because", REASON, *words
    )
    return dict(asked)


def test_quota_is_asked_for_approved_by_another_person_and_shown(
    terminal: Terminal, cast: Cast
) -> None:
    asked = ask(terminal, cast.bob)
    facts = (asked["requested_units"], asked["size"], asked["state"], asked["end_at"])
    assert facts == (8, "medium", "submitted", None)

    (approved,) = terminal.rows(cast.alice, "quota", "approve", asked["id"], "--note", "Fine.")
    assert approved["state"] == "approved"

    status, out, _ = terminal.run(cast.bob, "quota", "show", asked["id"])
    assert status == 0
    assert "approved" in out
    assert "Fine." in out
    assert [row["id"] for row in terminal.rows(cast.bob, "quota", "requests")] == [asked["id"]]
    assert terminal.rows(cast.bob, "quota", "requests", "--state", "rejected") == []
    assert terminal.rows(cast.bob, "quota", "--project", "llm")[0]["free_units"] == 8
    until = datetime.now(tz=UTC).date() + timedelta(days=30)
    dated = ask(terminal, cast.bob, "10", "--until", until.isoformat())
    assert dated["end_at"] == f"{until}T00:00:00+00:00"


def test_projects_are_shown_by_their_short_names_and_never_by_ids(
    terminal: Terminal, cast: Cast
) -> None:
    make_limit(cast.acme, cast.llm, size="medium", units=8)
    words = ("quota", "request", "llm", "medium", "8", "--because", REASON)

    tables = [
        terminal.run(cast.bob, *words)[1],
        terminal.run(cast.bob, "me")[1],
        terminal.run(cast.alice, "me")[1],
    ]

    assert ["llm" in table for table in tables] == [True, True, False]
    assert "acme" in tables[2]
    tables.append(terminal.run(cast.alice, "quota")[1])
    assert "acme          llm" in tables[-1]
    ids = {str(one.pk) for one in (cast.acme, cast.llm)}
    assert [name for name in ids for table in tables if name in table] == []


def test_a_refusal_is_shown_with_its_remedy_and_changes_nothing(
    terminal: Terminal, cast: Cast
) -> None:
    asked = ask(terminal, cast.bob)
    status, out, err = terminal.run(cast.bob, "quota", "approve", asked["id"])
    message, *remedy = err.splitlines()
    assert (status, out) == (1, "")
    assert message
    assert remedy
    (withdrawn,) = terminal.rows(cast.bob, "quota", "withdraw", asked["id"])
    assert withdrawn["state"] == "cancelled"


def test_the_project_must_be_one_of_the_callers(terminal: Terminal, cast: Cast) -> None:
    words = ("quota", "request", "virus", "small", "1", "--because", REASON)
    assert terminal.run(cast.bob, *words) == (
        1,
        "",
        "None of your projects is called 'virus'.\n`gl usage` lists your projects.\n",
    )


def test_invoices_are_listed_and_downloaded_or_none_of_them(
    terminal: Terminal, cast: Cast, tmp_path: Path
) -> None:
    invoice = make_final(cast.acme, cast.llm, month=Month(2026, 9))
    (listed,) = terminal.rows(cast.alice, "invoices", "--month", "2026-09")
    assert (listed["reference"], listed["payable"]["amount"]) == (invoice.reference, "2.00")

    target = tmp_path / "pdf"
    words = ("invoices", "download", "--to", str(target))
    status, _, err = terminal.run(cast.alice, *words, invoice.reference, "GL-0000-000000")
    assert (status, err.splitlines()[0]) == (1, "No final invoice has the number GL-0000-000000.")
    assert not target.exists()

    assert terminal.rows(cast.alice, *words) == [str(target / f"{invoice.reference}.pdf")]
    assert (target / f"{invoice.reference}.pdf").read_bytes().startswith(b"%PDF-1.7")
    assert terminal.rows(cast.mallory, "invoices") == []


def test_cost_usage_quota_headroom_and_roles_are_shown(terminal: Terminal, cast: Cast) -> None:
    december = ("--month", "2026-12")
    assert terminal.run(cast.alice, "cost", *december)[:2] == (
        0,
        "Nothing was charged in these days.\n",
    )
    report = terminal.rows(cast.alice, "cost", *december)
    assert (report["from"], report["to"]) == ("2026-12-01", "2027-01-01")
    assert terminal.run(cast.alice, "usage", *december)[:2] == (0, "Nothing was used.\n")
    assert terminal.run(cast.alice, "quota")[:2] == (0, "No limit is set.\n")
    (role,) = terminal.rows(cast.bob, "me")["grants"]
    assert (role["role"], role["project"]) == ("project_lead", str(cast.llm.pk))
    headroom = terminal.rows(cast.bob, "headroom", "llm", "small", "1")
    assert (headroom["fits"], headroom["free_units"], headroom["limits"]) == (True, None, [])


def test_any_path_can_be_called(terminal: Terminal, cast: Cast) -> None:
    status, out, err = terminal.run(cast.bob, "api", "projects/?slug=llm")
    assert (status, err) == (0, "")
    assert [row["slug"] for row in json.loads(out)["results"]] == ["llm"]
    asked = ("api", "projects/?slug=llm", "--field", "id")
    assert terminal.run(cast.bob, *asked) == (0, f"{cast.llm.pk}\n", "")
    tag = terminal.run(cast.alice, "api", f"projects/{cast.llm.pk}/", "--etag")
    assert tag == (0, '"1"\n', "")
    status, out, err = terminal.run(cast.bob, "api", "quota-requests/", "-d", "{}")
    assert (status, out) == (1, "")
    assert "project" in err


@pytest.mark.parametrize(
    ("path", "field", "expected"),
    [
        ("projects/?slug=virus", "id", "The list is empty.\n"),
        ("projects/?slug=llm", "colour", "The answer has no field 'colour'.\n"),
        ("schema/", "id", "The answer has no field 'id'.\n"),
    ],
)
def test_a_field_that_is_not_there_is_an_error(
    path: str, field: str, expected: str, terminal: Terminal, cast: Cast
) -> None:
    assert terminal.run(cast.bob, "api", path, "--field", field) == (1, "", expected)


def test_a_file_is_written_byte_for_byte(terminal: Terminal, cast: Cast) -> None:
    invoice = make_final(cast.acme, cast.llm, month=Month(2026, 9))
    path = f"invoices/{invoice.pk}/csv/"
    file = api_client(cast.alice).get(f"/api/v1/{path}").getvalue()
    assert terminal.run(cast.alice, "api", path) == (0, file.decode(), "")


def test_what_a_terminal_would_obey_is_not_printed(terminal: Terminal, cast: Cast) -> None:
    asked = ask(terminal, cast.bob)
    terminal.rows(cast.alice, "quota", "reject", asked["id"], "--note", "No\x1b[2J\u202e.")
    _, out, _ = terminal.run(cast.bob, "quota", "show", asked["id"])
    assert "No" in out
    assert not {"\x1b", "\u202e"} & set(out)


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("GL_URL", "ledger.example.com", "GL_URL does not name the service."),
        ("GL_TOKEN", "", "There is no token: GL_TOKEN is not set, and /nowhere cannot be read."),
    ],
)
def test_what_is_missing_is_named(
    variable: str, value: str, expected: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GL_TOKEN", "gl_x")
    monkeypatch.setenv("GL_TOKEN_FILE", "/nowhere")
    monkeypatch.setenv(variable, value)
    assert terminal.main(["me"]) == 1
    assert terminal.capture.readouterr().err.splitlines()[0] == expected

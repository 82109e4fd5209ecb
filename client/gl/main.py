"""The commands of gl and their arguments."""

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from datetime import date
from typing import TypeAlias
from uuid import UUID, uuid4

import httpx
from gpu_ledger_client.client import AuthenticatedClient

from gl import commands
from gl.connection import RefusedError, connect

REFUSED, UNUSABLE = 1, 2
SIZES = ("small", "medium", "large")
Actions: TypeAlias = "_SubParsersAction[ArgumentParser]"
Command = Callable[[AuthenticatedClient, Namespace], None]
STATES = ("submitted", "approved", "rejected", "cancelled", "expired")


def main(
    arguments: Sequence[str] | None = None, *, transport: httpx.BaseTransport | None = None
) -> int:
    """Run one command; return 0, or 1 when it was refused."""
    given = _parser().parse_args(arguments)
    try:
        with connect(transport=transport) as client:
            given.run(client, given)
    except RefusedError as error:
        sys.stderr.write(f"{error}\n")
        if error.remedy:
            sys.stderr.write(f"{error.remedy}\n")
        return REFUSED
    except BrokenPipeError:
        return REFUSED
    return 0


def call_api(client: AuthenticatedClient, given: Namespace) -> None:
    """Call any path of the API and print the answer as it is.

    Raises:
        RefusedError: The service refused, or did not answer.
    """
    method = given.method or ("POST" if given.data is not None else "GET")
    path = f"/api/v1/{given.path.removeprefix('/api/v1/').lstrip('/')}"
    headers = {} if method == "GET" else {"Idempotency-Key": given.key or str(uuid4())}
    if given.if_match:
        headers["If-Match"] = given.if_match
    try:
        answer = client.get_httpx_client().request(method, path, json=given.data, headers=headers)
    except httpx.HTTPError as error:
        raise RefusedError(f"The service did not answer: {error}.") from error
    if answer.is_error:
        raise RefusedError(answer.text)
    if given.etag:
        sys.stdout.write(f"{answer.headers.get('ETag', '')}\n")
    elif given.field:
        sys.stdout.writelines(f"{value}\n" for value in _values_of(answer, given.field))
    else:
        _write(answer)


def _values_of(answer: httpx.Response, field: str) -> list[str]:
    """Return one field of an object, or of each row of a list.

    Raises:
        RefusedError: The answer has no row, or its rows have no such field.
    """
    try:
        content = answer.json()
        rows = content if isinstance(content, list) else content.get("results", [content])
        values = [row[field] for row in rows]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RefusedError(f"The answer has no field {field!r}.") from error
    if not values:
        raise RefusedError("The list is empty.")
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def _write(answer: httpx.Response) -> None:
    """Print an answer: a file byte for byte, JSON on a terminal with a line for each field."""
    content = answer.content
    if content and "json" in answer.headers.get("Content-Type", ""):
        if sys.stdout.isatty():
            content = json.dumps(answer.json(), indent=2).encode()
        content += b"\n"
    sys.stdout.buffer.write(content)
    sys.stdout.flush()


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="gl",
        description="Quota, cost, usage and invoices of GPU Ledger.",
        epilog="GL_URL is the address of the service; GL_TOKEN, or the file GL_TOKEN_FILE names, "
        "holds the token.",
    )
    called = parser.add_subparsers(required=True, metavar="COMMAND")
    _add(called, "me", commands.show_me, "Whose token it is, and what its roles are.")
    quota = _add(called, "quota", commands.show_quota, "Limits, and what is free of them.")
    quota.add_argument("--project", metavar="SLUG")
    _add_requests(quota.add_subparsers(metavar="ACTION"))
    headroom = _add(called, "headroom", commands.show_headroom, "Whether units may start now.")
    _add_units(headroom, "how many units")
    cost = _add(called, "cost", commands.show_cost, "The cost of a month.")
    _add_month(cost)
    cost.add_argument("--by", default="project", metavar="KEY[,KEY]", help="project, owner, size …")
    usage = _add(called, "usage", commands.show_usage, "The use of a month.")
    _add_month(usage)
    usage.add_argument("--by", default="project,size", metavar="KEY[,KEY]")
    invoices = _add(called, "invoices", commands.show_invoices, "Invoices and notes.")
    _add_month(invoices)
    download = _add(
        invoices.add_subparsers(metavar="ACTION"),
        "download",
        commands.download_invoices,
        "Write PDFs of final invoices: those named, or all.",
    )
    download.add_argument("numbers", nargs="*", metavar="NUMBER")
    _add_month(download)
    download.add_argument("--to", default=".", metavar="FOLDER")
    _add_api(_add(called, "api", call_api, "Call any path, such as projects/?slug=llm."))
    return parser


def _add(where: Actions, name: str, run: Command, text: str) -> ArgumentParser:
    """Add a command that prints a table, or JSON."""
    added = where.add_parser(name, help=text, description=text)
    added.add_argument("--json", action="store_true", help="print the answer as JSON")
    added.set_defaults(run=run)
    return added


def _add_requests(actions: Actions) -> None:
    asked = _add(actions, "request", commands.request_quota, "Ask for units: the wanted total.")
    _add_units(asked, "the wanted total, not the difference")
    asked.add_argument("--because", required=True, metavar="TEXT", help="why; who decides reads it")
    asked.add_argument(
        "--until", type=_day, metavar="DATE", help="such as 2026-12-31; else for good"
    )
    asked.add_argument("--model", default="", metavar="GROUP", help="such as H100; else any")
    listed = _add(actions, "requests", commands.show_requests, "Requests, newest first.")
    listed.add_argument("--state", choices=STATES)
    _add(actions, "show", commands.show_request, "One request.").add_argument("id", type=UUID)
    for name, text in (("approve", "Approve a request."), ("reject", "Reject a request.")):
        decided = _add(actions, name, commands.decide_request, text)
        decided.set_defaults(decision=name)
        decided.add_argument("id", type=UUID)
        decided.add_argument("--note", default="", metavar="TEXT")
    withdrawn = _add(actions, "withdraw", commands.withdraw_request, "Withdraw a request.")
    withdrawn.add_argument("id", type=UUID)


def _add_units(parser: ArgumentParser, text: str) -> None:
    parser.add_argument("project", help='its slug, or "organization/project"')
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("units", type=int, help=text)


def _add_month(parser: ArgumentParser) -> None:
    parser.add_argument("--month", type=_label, metavar="YYYY-MM")


def _add_api(parser: ArgumentParser) -> None:
    parser.add_argument("path")
    parser.add_argument("-X", "--method", choices=("GET", "POST", "PATCH", "PUT", "DELETE"))
    parser.add_argument("-d", "--data", type=_json, metavar="JSON")
    parser.add_argument("--if-match", metavar="ETAG")
    parser.add_argument("--key", help="the Idempotency-Key; else a new one")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--field", metavar="NAME", help="print only this field of each row")
    shown.add_argument("--etag", action="store_true", help="print only the ETag")


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"not JSON: {error}") from error


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no day such as 2026-12-31") from error


def _label(text: str) -> str:
    try:
        return f"{date.fromisoformat(f'{text}-01'):%Y-%m}"
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no month such as 2026-10") from error


if __name__ == "__main__":
    sys.exit(main())

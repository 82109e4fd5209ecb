"""Where the service is, the caller's token, and calls whose refusals are shown."""

import os
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import httpx
from gpu_ledger_client.client import AuthenticatedClient
from gpu_ledger_client.models.problem import Problem
from gpu_ledger_client.types import UNSET, Response

TOKEN_FILE: Final = Path("~/.config/gpu-ledger/token")
TIMEOUT_SECONDS: Final = 60
PAGE_SIZE: Final = 200

Answer = TypeVar("Answer")


class Page(Protocol):
    """A page of a list."""

    @property
    def next_(self) -> object:
        """The address of the next page, if there is one."""

    @property
    def results(self) -> list[Any]:
        """The rows of this page."""


class RefusedError(Exception):
    """The service refused a call, could not be reached, or something to call it with is missing.

    Attributes:
        remedy: What to do about it; "" where nothing is known.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


def connect(
    environment: dict[str, str] | None = None, *, transport: httpx.BaseTransport | None = None
) -> AuthenticatedClient:
    """Return a client of the service that GL_URL names.

    Args:
        environment: Its GL_URL is the service's address; GL_TOKEN is the token, or the file that
            GL_TOKEN_FILE names holds it.
        transport: What carries the calls; None for the network.

    Raises:
        RefusedError: The address or the token is missing.
    """
    found = dict(os.environ) if environment is None else environment
    url = found.get("GL_URL", "").rstrip("/").removesuffix("/api/v1")
    if not url.startswith(("http://", "https://")):
        raise RefusedError(
            "GL_URL does not name the service.",
            remedy="Set it to its address: export GL_URL=https://ledger.example.com",
        )
    return AuthenticatedClient(
        base_url=url,
        token=_token(found),
        timeout=httpx.Timeout(TIMEOUT_SECONDS),
        headers={"User-Agent": "gl/0.1.0"},
        httpx_args={"transport": transport} if transport is not None else {},
    )


def _token(environment: dict[str, str]) -> str:
    token = environment.get("GL_TOKEN", "").strip()
    if token:
        return token
    path = Path(environment.get("GL_TOKEN_FILE") or TOKEN_FILE).expanduser()
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise RefusedError(
            f"There is no token: GL_TOKEN is not set, and {path} cannot be read.",
            remedy="Issue a token under My tokens, and set GL_TOKEN or write it to that file.",
        ) from error


def answer_of(
    call: Callable[..., Response[Answer | Problem]], *args: UUID, **fields: object
) -> Answer:
    """Return what a call of the generated client answers.

    Args:
        call: Its `sync_detailed`.
        args: What stands in the path.
        fields: Everything else; None is left out.

    Raises:
        RefusedError: The service refused, or did not answer.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    try:
        response = call(*args, **given)
    except httpx.HTTPError as error:
        raise RefusedError(
            f"The service did not answer: {error}.",
            remedy="Check GL_URL and the connection; what was asked can be asked again.",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise RefusedError(
            "The answer is not one of GPU Ledger's.",
            remedy="Check GL_URL, and that gl is as new as the service.",
        ) from error
    if isinstance(response.parsed, Problem):
        raise _refused(response.parsed)
    if response.parsed is None or response.status_code >= HTTPStatus.BAD_REQUEST:
        raise RefusedError(f"The service answered {response.status_code.value}.")
    return response.parsed


def rows_of(call: Callable[..., Response[Any]], **fields: object) -> Iterator[Any]:
    """Yield the rows of a list, page after page.

    Raises:
        RefusedError: The service refused, or did not answer.
    """
    cursor: str | None = None
    while True:
        page: Page = answer_of(call, cursor=cursor, page_size=PAGE_SIZE, **fields)
        yield from page.results
        if page.next_ is None or page.next_ is UNSET:
            return
        cursor = httpx.URL(str(page.next_)).params["cursor"]


def _refused(problem: Problem) -> RefusedError:
    """Return a refusal as one error, with each of its reasons on a line."""
    lines = [_named(problem.to_dict())]
    lines += [f"  {_named(part)}" for part in problem.to_dict().get("problems") or []]
    return RefusedError("\n".join(lines), remedy=str(problem.to_dict().get("remedy") or ""))


def _named(part: dict[str, Any]) -> str:
    text = str(part.get("detail") or part.get("title") or part.get("code"))
    return f"{part['field']}: {text}" if part.get("field") else text

"""Bodies in bounded pieces: a whole document, or line after line as they come."""

import json
import time
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, NoReturn

from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.response import BaseHTTPResponse

from metering.adapters.kubernetes.fields import bad_answer, mapping
from tenants.domain.errors import SourceUnavailableError

CHUNK_BYTES: Final = 64 * 1024
LINE_BYTES_MAX: Final = 8 * 1024 * 1024
"""etcd keeps objects of at most 1.5 MiB; as JSON with all its escapes one is still far below."""
DOCUMENT_BYTES_MAX: Final = 128 * 1024 * 1024
"""A page of 500 pods is 5 MB; this is the size of 500 of the largest pods observed in production.
"""
DOCUMENT_SECONDS_MAX: Final = 60
"""A page that takes longer than this is abandoned, even if its connection is still open."""
WAITED_SECONDS: Final = 0.2
"""A server that is silent for this long has sent every event it had."""
PROMPT_AFTER_SECONDS: Final = 30
"""A stream that never leaves us waiting has caught up by then: missed events arrive at once."""


class StreamLine(NamedTuple):
    """One line of a stream.

    Attributes:
        is_prompt: Whether it was sent as it happened; False while the server may still be sending a
            backlog.
    """

    body: bytes
    is_prompt: bool


def read_document(response: BaseHTTPResponse, *, slug: str) -> dict[str, Any]:
    """Return a whole JSON object.

    Raises:
        SourceUnavailableError: It breaks off, is too large, too slow, or no JSON object.
    """
    give_up_at = time.monotonic() + DOCUMENT_SECONDS_MAX
    body = bytearray()
    while chunk := _read(response, slug):
        body += chunk
        if len(body) > DOCUMENT_BYTES_MAX:
            raise _too_large(slug, DOCUMENT_BYTES_MAX)
        if time.monotonic() > give_up_at:
            raise SourceUnavailableError(
                f"The answer of cluster {slug} comes too slowly.", reason="timeout"
            )
    return parse_object(bytes(body))


def read_lines(
    response: BaseHTTPResponse, *, slug: str, stall_seconds: float
) -> Iterator[StreamLine]:
    """Yield every line of a stream as soon as it is whole, until the server ends the stream.

    Raises:
        SourceUnavailableError: The stream breaks off, ends inside a line, has a line that is too
            long, or completes none for `stall_seconds`.
    """
    buffer = bytearray()
    asked_at = time.monotonic()
    prompt_at, give_up_at = asked_at + PROMPT_AFTER_SECONDS, asked_at + stall_seconds
    while chunk := _read(response, slug):
        now = time.monotonic()
        if now - asked_at >= WAITED_SECONDS:
            prompt_at = min(prompt_at, now)
        for body in _whole_lines(buffer, chunk, slug):
            give_up_at = now + stall_seconds
            yield StreamLine(body, now >= prompt_at)
        if now > give_up_at:
            raise SourceUnavailableError(
                f"The stream of cluster {slug} completes no line any more.", reason="stalled"
            )
        asked_at = time.monotonic()
    if buffer.strip():
        raise SourceUnavailableError(
            f"The stream of cluster {slug} ends inside a line.", reason="truncated"
        )


def _whole_lines(buffer: bytearray, chunk: bytes, slug: str) -> Iterator[bytes]:
    """Yield the lines a chunk completes; what is left of it stays in the buffer."""
    *whole, rest = chunk.split(b"\n")
    for part in whole:
        line = bytes(buffer) + part
        buffer.clear()
        if line.strip():
            yield line
    buffer += rest
    if len(buffer) > LINE_BYTES_MAX:
        raise _too_large(slug, LINE_BYTES_MAX)


def parse_object(body: bytes) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        SourceUnavailableError: `bad_answer`.
    """
    try:
        # NaN and Infinity are no JSON; bytes that are no UTF-8 are a ValueError too.
        found = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise bad_answer("it is not JSON") from error
    if found is None:
        raise bad_answer("it is null")
    return mapping(found, "the answer")


def _read(response: BaseHTTPResponse, slug: str) -> bytes:
    """Return what has come, waiting only when nothing has; nothing at the end."""
    try:
        return response.read1(CHUNK_BYTES)
    except ReadTimeoutError as error:
        raise SourceUnavailableError(
            f"The API of cluster {slug} says nothing any more.", reason="stalled"
        ) from error
    except HTTPError as error:
        raise SourceUnavailableError(
            f"The answer of cluster {slug} breaks off.", reason="truncated"
        ) from error


def _too_large(slug: str, limit: int) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"Cluster {slug} answered with more than {limit} bytes at once.", reason="too_large"
    )


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)

"""Reading JSON bodies within limits; what is beyond them is a problem document that names them."""

from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any, Final

from django.conf import settings
from rest_framework.parsers import JSONParser

from tenants.domain.refusals import BodyTooDeepError, BodyTooLargeError

DEPTH_MAX: Final = 32
"""The deepest body of the API has 5; a program's own recursion ends near 1,000."""


class LimitedJSONParser(JSONParser):
    """DRF's JSON, of at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes and `DEPTH_MAX` levels."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the body.

        Raises:
            BodyTooLargeError: It has too many bytes; the rest is not read.
            BodyTooDeepError: Its objects and lists are nested too deep.
            ParseError: It is not JSON.
        """
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        text = stream.read(most + 1)
        if len(text) > most:
            raise BodyTooLargeError(f"The body has more than {most} bytes.")
        try:
            body: dict[str, Any] = super().parse(BytesIO(text), media_type, parser_context)
        except RecursionError as error:
            raise _too_deep() from error
        _check_depth(body)
        return body


def _check_depth(body: object) -> None:
    level: list[Any] = [body]
    for _ in range(DEPTH_MAX + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> BodyTooDeepError:
    return BodyTooDeepError(f"The body is nested deeper than {DEPTH_MAX} levels.")

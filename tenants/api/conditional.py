"""ETag and If-Match: a change names the version it was made from. Source: RFC 9110, 13.1.1.

    class OrganizationViewSet(LedgerViewSet):
        @if_match
        def partial_update(self, request: Request, pk: UUID) -> Response:
            update_organization(..., expected_version=expected_version(request), ...)

The version is compared by the service under its row lock, never here.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from rest_framework.request import Request

from tenants.domain.refusals import PreconditionRequiredError

HEADER = "If-Match"
_ETAG = re.compile(r'"([1-9][0-9]{0,8})"')

Handler = TypeVar("Handler", bound=Callable[..., object])


def if_match(handler: Handler) -> Handler:
    """Mark a handler whose requests carry If-Match, so that the API description says so."""
    handler.requires_if_match = True  # type: ignore[attr-defined]
    return handler


def may_conflict(handler: Handler) -> Handler:
    """Mark a handler of reading that may answer 409, so that the API description says so."""
    handler.may_conflict = True  # type: ignore[attr-defined]
    return handler


def etag_of(version: int) -> str:
    """Return the strong ETag of a version, with its quotes."""
    return f'"{version}"'


def expected_version(request: Request) -> int:
    """Return the version that If-Match names.

    Raises:
        PreconditionRequiredError: The header is missing, or is no ETag of this API; `*` and lists
            are refused, since they would overwrite what the caller has not seen.
    """
    found = _ETAG.fullmatch(request.headers.get(HEADER, "").strip())
    if found is None:
        raise PreconditionRequiredError("If-Match does not name the version that is changed.")
    return int(found[1])

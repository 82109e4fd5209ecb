"""How many requests a caller may make in a minute, and what answers say of it."""

from typing import TYPE_CHECKING

from django.conf import settings
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from tenants.adapters.request_counts import request_counts
from tenants.api.actors import actor_of_request
from tenants.domain.refusals import TooManyRequestsError

if TYPE_CHECKING:
    from rest_framework.views import APIView

ATTRIBUTE = "limit_headers"
"""Of a request: what the middleware adds to its answer."""


class RequestLimit(BaseThrottle):
    """Counts the requests of an account, and refuses those beyond its limit.

    `RateLimit-Limit` is for a minute, `RateLimit-Reset` the seconds to its end. Source: the IETF
    draft "RateLimit header fields for HTTP", version 06.
    """

    def allow_request(self, request: Request, view: "APIView") -> bool:  # noqa: ARG002 - DRF's.
        """Count a request.

        Raises:
            TooManyRequestsError: There were as many as the site allows already.
        """
        limit = settings.API_REQUESTS_PER_MINUTE
        if not limit or not request.user.is_authenticated:
            return True
        actor = actor_of_request(request)
        counts = request_counts(settings.REDIS_URL, settings.REDIS_SENTINELS)
        count = counts.count(f"{actor.kind.value}:{actor.id}")
        if count is None:
            return True
        headers = {
            "RateLimit-Limit": str(limit),
            "RateLimit-Remaining": str(max(limit - count.made, 0)),
            "RateLimit-Reset": str(count.seconds_left),
        }
        setattr(request._request, ATTRIBUTE, headers)  # noqa: SLF001 - DRF's own.
        if count.made > limit:
            raise TooManyRequestsError(
                f"More than {limit} requests were made within a minute.",
                facts={"limit": limit, "retry_after_seconds": count.seconds_left},
            )
        return True

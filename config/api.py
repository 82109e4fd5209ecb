"""REST API of every app under /api/v1/, with its OpenAPI schema."""

import hashlib
from functools import cache
from typing import Final

from django.conf import settings
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotModified,
    HttpResponsePermanentRedirect,
)
from django.http.response import HttpResponseBase
from django.urls import Resolver404, include, path, re_path, resolve
from django.utils.http import parse_etags, quote_etag
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularSwaggerSplitView
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.domain.errors import NotFoundError


class PermanentRedirectKeepingMethod(HttpResponsePermanentRedirect):
    """308: the same request, body and all, goes to the other address."""

    status_code = 308


DESCRIPTION: Final = settings.BASE_DIR / "docs" / "reference" / "openapi.yaml"
UNKNOWN_REMEDY: Final = "Check the address against the API description at /api/v1/docs/."


@extend_schema(exclude=True)
class UnknownResourceView(APIView):
    """What answers where nothing hangs: a problem document, not a page."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse every method alike, naming the address that was probably meant.

        Raises:
            NotFoundError: Always.
        """
        super().initial(request, *args, **kwargs)
        meant = _with_slash(request._request)  # noqa: SLF001 - DRF's way to Django's request.
        remedy = f"Send it to {meant}, with the slash at its end." if meant else UNKNOWN_REMEDY
        raise NotFoundError("There is no such resource.", remedy=remedy)


@cache
def _description() -> tuple[bytes, str]:
    """Return the committed description of the API and its ETag, read once a process."""
    text = DESCRIPTION.read_bytes()
    return text, quote_etag(hashlib.sha256(text).hexdigest())


@require_safe
def description(request: HttpRequest) -> HttpResponse:
    """Answer the description of the API as it is committed; nothing is generated."""
    text, etag = _description()
    headers = {"ETag": etag, "Cache-Control": "no-cache"}
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        return HttpResponseNotModified(headers=headers)
    return HttpResponse(
        text, content_type="application/vnd.oai.openapi; charset=utf-8", headers=headers
    )


@csrf_exempt
def unknown_resource(request: HttpRequest, rest: str = "") -> HttpResponseBase:
    """Send a reader without the last slash to the address with it; refuse everything else.

    A write is refused rather than sent on: clients drop its body or its key on the way. Nothing
    is changed here and no cookie is read, so that no token against forged forms is asked for.
    """
    meant = _with_slash(request)
    if meant and request.method in SAFE_METHODS:
        query = request.META.get("QUERY_STRING", "")
        return PermanentRedirectKeepingMethod(f"{meant}{'?' if query else ''}{query}")
    answer: HttpResponseBase = UnknownResourceView.as_view()(request, rest=rest)
    return answer


def _with_slash(request: HttpRequest) -> str:
    """Return the address with a slash at its end when something hangs there; "" otherwise."""
    if request.path_info.endswith("/"):
        return ""
    try:
        found = resolve(f"{request.path_info}/")
    except Resolver404:
        return ""
    return "" if found.func is unknown_resource else f"{request.path}/"


urlpatterns = [
    path("schema/", description, name="schema"),
    path("docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    path("", include("tenants.api.urls")),
    path("", include("metering.api.urls")),
    path("", include("quotas.api.urls")),
    path("", include("billing.api.urls")),
    re_path(r"^(?P<rest>.*)$", unknown_resource),
]

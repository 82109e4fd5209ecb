"""The REST doors of every app under /api/v1/, with their description."""

from typing import Final

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.urls import Resolver404, include, path, re_path, resolve
from django.views.decorators.csrf import csrf_exempt
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.permissions import SAFE_METHODS, AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from tenants.domain.errors import NotFoundError


class PermanentRedirectKeepingMethod(HttpResponsePermanentRedirect):
    """308: the same request, body and all, goes to the other address."""

    status_code = 308


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
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    path("", include("tenants.api.urls")),
    path("", include("metering.api.urls")),
    path("", include("quotas.api.urls")),
    path("", include("billing.api.urls")),
    re_path(r"^(?P<rest>.*)$", unknown_resource),
]

"""The REST doors of every app under /api/v1/, with their description."""

from django.http import HttpRequest, HttpResponsePermanentRedirect
from django.http.response import HttpResponseBase
from django.urls import Resolver404, include, path, re_path, resolve
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.exceptions import NotFound
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView


class PermanentRedirectKeepingMethod(HttpResponsePermanentRedirect):
    """308: the same request, body and all, goes to the other address."""

    status_code = 308


@extend_schema(exclude=True)
class UnknownResourceView(APIView):
    """What answers where nothing hangs: a problem document, not a page."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Refuse every method alike.

        Raises:
            NotFound: Always.
        """
        super().initial(request, *args, **kwargs)
        raise NotFound("There is no such resource.")


def unknown_resource(request: HttpRequest, rest: str) -> HttpResponseBase:
    """Send a path without its last slash to the one with it; refuse any other."""
    if not rest.endswith("/"):
        try:
            found = resolve(f"{request.path_info}/")
        except Resolver404:
            found = None
        if found is not None and found.func is not unknown_resource:
            query = request.META.get("QUERY_STRING", "")
            return PermanentRedirectKeepingMethod(f"{request.path}/{'?' if query else ''}{query}")
    answer: HttpResponseBase = UnknownResourceView.as_view()(request, rest=rest)
    return answer


urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", SpectacularSwaggerView.as_view(url_name="schema"), name="docs"),
    path("", include("tenants.api.urls")),
    path("", include("metering.api.urls")),
    path("", include("quotas.api.urls")),
    path("", include("billing.api.urls")),
    re_path(r"^(?P<rest>.*)$", unknown_resource),
]

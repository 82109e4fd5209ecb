"""The language of a page: the person's choice, or what the browser asks for."""

from typing import Final

from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

TRANSLATED: Final = ("/admin/", "/app/", "/accounts/")
"""Pages, which are translated whole. The API answers in English."""


class PageLanguage(LocaleMiddleware):
    """Django's middleware, for the pages that are translated; others are English."""

    def process_request(self, request: HttpRequest) -> None:
        """Activate the language of the page."""
        if _is_translated(request):
            super().process_request(request)
            return
        translation.activate(settings.LANGUAGE_CODE)

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Name the language of the page, and what it depends on; what follows is English."""
        if _is_translated(request):
            response = super().process_response(request, response)
            translation.activate(settings.LANGUAGE_CODE)
        return response


def _is_translated(request: HttpRequest) -> bool:
    return request.path_info.startswith(TRANSLATED)

"""A bare Django view, as fast as Django can be: what admission is held against."""

import os

from django.http import HttpRequest, HttpResponse
from django.urls import path

ANSWER = b'{"response": {"uid": "", "allowed": true}}'


def bare(request: HttpRequest) -> HttpResponse:
    """Read the body and answer the same to everybody."""
    len(request.body)
    headers = {"Content-Length": str(len(ANSWER))}
    return HttpResponse(ANSWER, content_type="application/json", headers=headers)


urlpatterns = [path("bare", bare), path("readyz", bare)]


def make_application() -> object:
    """Return the application, with this module as its URLs and no middleware."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.development")
    import django  # noqa: PLC0415 - Settings come first.
    from django.conf import settings  # noqa: PLC0415 - As above.
    from django.core.handlers.wsgi import WSGIHandler  # noqa: PLC0415 - As above.

    settings.MIDDLEWARE = []
    settings.ROOT_URLCONF = "bench.bare"
    django.setup(set_prefix=False)
    return WSGIHandler()

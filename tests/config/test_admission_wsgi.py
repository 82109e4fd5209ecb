"""The admission server's own way into Django."""

from io import BytesIO
from typing import Any

import pytest
from django.core.signals import request_finished, request_started
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path

from config.admission_wsgi import PlainHandler

Started = list[tuple[str, dict[str, str]]]


def echo(request: HttpRequest) -> HttpResponse:
    """Answer what was sent."""
    return HttpResponse(request.body, headers={"X-Method": str(request.method)}, status=202)


def fail(request: HttpRequest) -> HttpResponse:
    """Break."""
    raise RuntimeError(f"{request.path} is broken")


urlpatterns = [path("echo", echo), path("fail", fail)]


def asked(where: str, body: bytes = b"") -> tuple[str, dict[str, str], bytes]:
    """Return the status, the headers and the body that a WSGI server would send."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": where,
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8443",
        "wsgi.input": BytesIO(body),
        "wsgi.url_scheme": "https",
    }
    started: Started = []

    def start(status: str, headers: list[tuple[str, str]]) -> None:
        started.append((status, dict(headers)))

    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[], DEBUG=False):
        reported = b"".join(PlainHandler()(environ, start))
    ((status, headers),) = started
    return status, headers, reported


def test_a_request_is_answered_as_django_answers_it() -> None:
    status, headers, reported = asked("/echo", b"a pod")

    assert (status, headers["X-Method"], reported) == ("202 Accepted", "POST", b"a pod")


@pytest.mark.parametrize(
    ("where", "status"), [("/nowhere", "404 Not Found"), ("/fail", "500 Internal Server Error")]
)
def test_what_goes_wrong_is_an_answer(where: str, status: str) -> None:
    assert asked(where)[0] == status


def test_nothing_of_what_looks_after_connections_elsewhere_runs() -> None:
    seen: list[str] = []

    def begun(**_: object) -> None:
        seen.append("begun")

    def ended(**_: object) -> None:
        seen.append("ended")

    request_started.connect(begun)
    request_finished.connect(ended)
    try:
        asked("/echo")
    finally:
        request_started.disconnect(begun)
        request_finished.disconnect(ended)

    assert seen == []

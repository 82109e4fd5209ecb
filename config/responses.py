"""Headers of every response, and the pages of refused requests in the style of all others."""

import base64
import hashlib
import re
from collections.abc import Callable
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

from django.contrib import admin
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.template import Context, Template
from django.template.loader import get_template
from django.utils.http import parse_etags
from django.utils.translation import gettext
from unfold.settings import get_config
from unfold.utils import convert_color

from tenants.api.limits import ATTRIBUTE

API: Final = "/api/"
_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)
_STYLED: Final = (
    "unfold/layouts/skeleton.html",
    "admin/change_list.html",
    "drf_spectacular/swagger_ui.html",
)
"""Templates of libraries that have a style element; each is allowed by its digest."""


KEPT_BY_304: Final = (
    "ETag",
    "Cache-Control",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
)


class AnswerHeaders:
    """Middleware: Content-Security-Policy for pages; `no-store`, limits and ETags for the API."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer; a view that sets one of the headers itself is left alone."""
        response = self.get_response(request)
        if request.path_info.startswith(API):
            response.headers.setdefault("Cache-Control", "no-store")
            for name, value in getattr(request, ATTRIBUTE, {}).items():
                response.headers[name] = value
            response = _if_changed(request, response)
        if response.get("Content-Type", "").startswith("text/html"):
            response.headers.setdefault("Content-Security-Policy", self._policy)
        return response

    @cached_property
    def _policy(self) -> str:
        return content_security_policy()


class StorableText:
    """Middleware: a page that was asked for with NUL, which no text column takes, answers 400."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer."""
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the page of a refusal where the database was given NUL; None for other faults."""
        if not isinstance(exception, DataError) or "NUL" not in str(exception):
            return None
        text = gettext(
            "It holds the character NUL, which cannot be stored. Remove it from the address or the "
            "form and send it again."
        )
        return _page(request, title=gettext("This text cannot be used"), text=text, status=400)


def _if_changed(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Return an answer with an ETag of its bytes, or 304 where If-None-Match names that.

    An object with a version has the ETag of that, which If-Match takes; it may show more than its
    version covers, so it is always answered whole.
    """
    is_whole = request.method == "GET" and response.status_code == HTTPStatus.OK
    if not is_whole or response.streaming or response.has_header("ETag"):
        return response
    etag = f'W/"{hashlib.sha256(response.content).hexdigest()[:32]}"'
    response.headers["ETag"] = etag
    if etag not in parse_etags(request.headers.get("If-None-Match", "")):
        return response
    kept = {name: response[name] for name in KEPT_BY_304 if name in response}
    return HttpResponseNotModified(headers=kept)


def content_security_policy() -> str:
    """Return what a page may load: files of this service, and no script or style of its own.

    The admin's scripts (Alpine.js) make functions of expressions in attributes, which needs
    'unsafe-eval', and set widths in style attributes. A script element or an event attribute that
    someone brings into a page is not run, and nothing is loaded from or sent to another site.
    """
    rules = {
        "default-src": "'none'",
        "script-src": "'self' 'unsafe-eval'",
        "style-src": " ".join(["'self'", *sorted(_style_digests())]),
        "style-src-attr": "'unsafe-inline'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "frame-src": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
        "base-uri": "'none'",
    }
    return "; ".join(f"{name} {sources}" for name, sources in rules.items())


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django's signature.
    """Answer a user whose roles do not allow the request."""
    text = gettext(
        "No role of yours opens this page, or allows what you sent. Your access shows your roles; "
        "a platform admin, or an administrator of your organization, gives another one."
    )
    return _page(request, title=gettext("This page is not open to you"), text=text, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - As above.
    """Answer a request for an address that has no page."""
    text = gettext("There is no page at this address. Check it, or begin again from here.")
    return _page(request, title=gettext("Page not found"), text=text, status=404)


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - As above.
    """Answer a form that came without its key against forgery."""
    text = gettext(
        "It was opened before you signed in or out, or your browser takes no cookies of this site. "
        "Go back, reload the page and send the form again."
    )
    return _page(request, title=gettext("This form was not accepted"), text=text, status=403)


def _style_digests() -> set[str]:
    """Return the digests of the style elements that the libraries' templates have."""
    return {
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for name in _STYLED
        for source in _STYLE.findall(get_template(name).template.source)  # type: ignore[attr-defined]
        for text in (Template(source).render(Context(_theme())),)
    }


def _theme() -> dict[str, Any]:
    """Return what the admin's own style element is made of, as unfold gives it to every page."""
    config = get_config()
    colors = {
        name: {weight: convert_color(value) for weight, value in weights.items()}
        for name, weights in config["COLORS"].items()
    }
    return {"colors": colors, "border_radius": config.get("BORDER_RADIUS")}


def _page(request: HttpRequest, *, title: str, text: str, status: int) -> HttpResponse:
    values = {**admin.site.each_context(request), "title": title, "text": text}
    return render(request, "error.html", values, status=status)

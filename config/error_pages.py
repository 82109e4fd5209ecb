"""Pages of requests that are refused or lead nowhere, in the style of all others."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - Django's signature.
    """Answer a user whose roles do not allow the request."""
    text = (
        "No role of yours opens this page, or allows what you sent. Your access shows your roles; "
        "a platform admin, or an administrator of your organization, gives another one."
    )
    return _page(request, title="This page is not open to you", text=text, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 - As above.
    """Answer a request for an address that has no page."""
    text = "There is no page at this address. Check it, or begin again from here."
    return _page(request, title="Page not found", text=text, status=404)


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 - As above.
    """Answer a form that came without its key against forgery."""
    text = (
        "It was opened before you signed in or out, or your browser takes no cookies of this site. "
        "Go back, reload the page and send the form again."
    )
    return _page(request, title="This form was not accepted", text=text, status=403)


def _page(request: HttpRequest, *, title: str, text: str, status: int) -> HttpResponse:
    values = {**admin.site.each_context(request), "title": title, "text": text}
    return render(request, "error.html", values, status=status)

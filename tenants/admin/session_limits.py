"""Middleware that ends a browser's session by age, and notes what its person may look at."""

import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest, HttpResponse

from tenants.services.identity.session_store import BEGAN_AT, PUBLIC_ID, USED_AT

BROWSER: Final = "browser"
NOTED_EVERY_SECONDS: Final = 60
"""A session that is used is written this often: its idle end is right to the minute."""
BROWSER_LENGTH_MAX: Final = 200


class SessionLimits:
    """Ends sessions `SESSION_MAX_SECONDS` after signing in, however much they are used.

    Unused ones end after `SESSION_IDLE_SECONDS`: that is Django's SESSION_COOKIE_AGE, counted from
    the last time the session was written.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, within a session that may go on."""
        if settings.SESSION_COOKIE_NAME in request.COOKIES and SESSION_KEY in request.session:
            _check(request)
        response = self.get_response(request)
        session = request.session
        if session.modified and SESSION_KEY in session and BROWSER not in session:
            session[BROWSER] = _browser_of(request)
        return response


def current_session_id(request: HttpRequest) -> UUID | None:
    """Return the public id of the session a request came in; None without one."""
    public_id = request.session.get(PUBLIC_ID)
    return None if public_id is None else UUID(public_id)


def _check(request: HttpRequest) -> None:
    session: SessionBase = request.session
    now = int(time.time())
    if now - session[BEGAN_AT] >= settings.SESSION_MAX_SECONDS:
        session.flush()
        request.user = AnonymousUser()
    elif now - session[USED_AT] >= NOTED_EVERY_SECONDS:
        session.update({USED_AT: now, BROWSER: _browser_of(request)})


def _browser_of(request: HttpRequest) -> str:
    return request.headers.get("User-Agent", "")[:BROWSER_LENGTH_MAX]

"""Passwords that people enter: Django's backend and forms, with limits and a trace."""

import secrets
import time
from collections.abc import Callable
from threading import Event
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib import admin
from django.contrib.auth import SESSION_KEY, authenticate
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.sessions.backends.base import SessionBase
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext_lazy
from unfold.forms import AuthenticationForm

from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.sign_in import NO_DEVICE, Device, client_network, proof_of
from tenants.domain.refusals import TooManyAttemptsError
from tenants.selectors.actors import actor_of_user
from tenants.services.audit import record
from tenants.services.identity.sessions import BEGAN_AT, PUBLIC_ID, USED_AT
from tenants.services.identity.sign_in import (
    KNOWN_FOR,
    Attempt,
    begin_attempt,
    deny_attempt,
    excuse_attempt,
    fail_attempt,
    succeed_attempt,
)

ACTOR: Final = system_actor("tenants.sign_in")
PROXY_UNNAMED: Final = Event()
"""Set once a person's request carries X-Forwarded-For while TRUSTED_PROXIES is empty."""
_ATTEMPT: Final = "_ledger_sign_in_attempt"
_REFUSAL: Final = "_ledger_sign_in_refusal"
_SIGNED_IN: Final = "_ledger_signed_in"
_DEVICE: Final = "device"


class LimitedPasswordBackend(ModelBackend):
    """Django's backend, which looks at no password beyond the limits of its account and network."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,  # noqa: ANN401 - Django's signature.
    ) -> User | None:
        """Return the user if the password is right, else None.

        Without a request the caller is this process, and no attempt is counted.

        Raises:
            TooManyAttemptsError: The limit is reached; the password was not checked.
        """
        if request is None or username is None or password is None:
            return super().authenticate(request, username=username, password=password, **kwargs)
        try:
            attempt = begin_attempt(
                username=username,
                network=network_of(request),
                device=read_device(request),
                actor=ACTOR,
                at=timezone.now(),
            )
        except TooManyAttemptsError as refusal:
            setattr(request, _REFUSAL, refusal)
            raise
        with transaction.atomic():
            user = super().authenticate(request, username=username, password=password, **kwargs)
            if user is not None and _is_hashed_anew(user):
                _record_new_hash(user)
        if user is None:
            fail_attempt(attempt=attempt, actor=ACTOR, at=timezone.now())
        setattr(request, _ATTEMPT, attempt)
        return user


def _is_hashed_anew(user: User) -> bool:
    """Whether Django stored the right password again, since the way to hash it has changed."""
    return "_password" in vars(user)


def _record_new_hash(user: User) -> None:
    record(
        actor=ACTOR,
        at=timezone.now(),
        action="tenants:user:rehash_password",
        object_kind="user",
        object_id=user.pk,
        facts={},
    )


class SignInForm(AuthenticationForm):
    """The admin's form of sign-in; what it accepts becomes a session."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": gettext_lazy(
            "Enter the user name and password of a person with staff status. All others sign in at "
            "/accounts/. Both fields distinguish upper and lower case."
        ),
    }

    def clean(self) -> dict[str, Any]:
        """Return the fields once the person may sign in.

        Raises:
            ValidationError: The person may not, or too many attempts failed.
        """
        try:
            fields: dict[str, Any] = super().clean()
        except TooManyAttemptsError as error:
            raise ValidationError(f"{error.message} {error.advice}", code=error.code) from error
        attempt, user = getattr(self.request, _ATTEMPT, None), self.get_user()
        if isinstance(attempt, Attempt) and isinstance(user, User):
            succeed_attempt(
                attempt=attempt, user=user, actor=actor_of_user(user), at=timezone.now()
            )
            setattr(self.request, _SIGNED_IN, user)
        return fields

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """Refuse people without access to this page, though the password is right.

        Raises:
            ValidationError: They have no access to this page.
        """
        try:
            super().confirm_login_allowed(user)
        except ValidationError:
            attempt = getattr(self.request, _ATTEMPT, None)
            if isinstance(attempt, Attempt):
                deny_attempt(
                    attempt=attempt, user=user, actor=actor_of_user(user), at=timezone.now()
                )
            raise


def prove_own_password(request: HttpRequest, user: User, password: str) -> bool:
    """Whether a signed-in person knows the password; a guess here counts as one at sign-in.

    Raises:
        TooManyAttemptsError: The limit is reached; the password was not checked.
    """
    try:
        proven = authenticate(request, username=user.get_username(), password=password)
    except TooManyAttemptsError as error:
        raise TooManyAttemptsError(
            error.message, field="old_password", facts=error.facts
        ) from error
    attempt = getattr(request, _ATTEMPT, None)
    if not isinstance(proven, User) or proven.pk != user.pk:
        return False
    if isinstance(attempt, Attempt):
        excuse_attempt(attempt=attempt)
    user.password = proven.password
    return True


def network_of(request: HttpRequest) -> str:
    """Return the network a request comes from; note a proxy that the settings do not name."""
    if not settings.TRUSTED_PROXIES and "HTTP_X_FORWARDED_FOR" in request.META:
        PROXY_UNNAMED.set()
    return client_network(request.META, trusted=settings.TRUSTED_PROXIES)


def read_device(request: HttpRequest) -> Device:
    """Return the browser that a request's cookie proves; `NO_DEVICE` without one of ours."""
    try:
        user_id, number, proof = signing.loads(
            request.COOKIES.get(_DEVICE, ""), salt=__name__, max_age=KNOWN_FOR
        )
    except (signing.BadSignature, TypeError, ValueError):
        return NO_DEVICE
    return Device(user_id=int(user_id), number=str(number), proof=str(proof))


class DeviceCookie:
    """Middleware that marks a browser as a known device of an account.

    The cookie opens nothing: it only keeps guesses of others from refusing its account here.
    Source: OWASP, "Slow down online guessing attacks with device cookies".
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer, with the cookie after a sign-in."""
        response = self.get_response(request)
        user = getattr(request, _SIGNED_IN, None)
        if isinstance(user, User):
            device = read_device(request)
            number = device.number if device.user_id == user.pk else secrets.token_urlsafe(16)
            response.set_cookie(
                _DEVICE,
                signing.dumps([user.pk, number, proof_of(user.password)], salt=__name__),
                max_age=KNOWN_FOR,
                secure=settings.SESSION_COOKIE_SECURE,
                httponly=True,
                samesite="Lax",
            )
        return response


def keep_device(request: HttpRequest, user: User) -> None:
    """Keep the browser of a person a known device after a change of password."""
    setattr(request, _SIGNED_IN, user)


def as_limited(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """Answer a page with 429 and Retry-After when the limit is reached."""
    refusal = getattr(request, _REFUSAL, None)
    if isinstance(refusal, DomainError):
        answer.status_code = refusal.status
        answer["Retry-After"] = str(refusal.facts["retry_after_seconds"])
    return answer


def sign_in(request: HttpRequest) -> HttpResponse:
    """Return the admin's sign-in page, with status 429 when attempts are limited."""
    return as_limited(request, admin.site.login(request))


admin.site.login_form = SignInForm


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

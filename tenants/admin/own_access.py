"""Pages of one's own for every active person: sign in, and "Your access" with tokens and sessions.

Signing in is the admin's own form and backend, with its limits and its trace, for people without
staff status too. No role is needed here: the API token that is issued can do what its person can.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import views
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import AbstractBaseUser, User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse, reverse_lazy
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext, gettext_lazy, gettext_noop, ngettext
from django.views.decorators.http import require_safe
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminTextInputWidget

from tenants.access import access_seen, own_tokens
from tenants.adapters.mail import is_mail_set_up
from tenants.admin.accounts import OwnPasswordView, SitePage
from tenants.admin.base import actor_of_request
from tenants.admin.programs import new_token_key, read_token_key
from tenants.admin.sign_in import SignInForm, as_limited, current_session_id
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.account_changes import ChangeKind
from tenants.domain.identity.refusals import TokenIssuedError
from tenants.domain.identity.roles import CAPABILITIES
from tenants.domain.identity.sign_in import LIFETIME_MAX
from tenants.selectors.people import (
    has_first_token,
    holds_platform_role,
    open_first_token,
    roles_of,
    sessions_of,
)
from tenants.services.audit import note_refusal
from tenants.services.identity.account_changes import ask_change
from tenants.services.identity.sessions import end_other_sessions, end_session
from tenants.services.identity.tokens import IssuedToken, issue_token, revoke_token

BROWSERS: Final = {
    "Edg/": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "Chrome/": "Chrome",
    "Safari/": "Safari",
}
"""By a part of User-Agent; those that name others too come first."""
SYSTEMS: Final = {
    "Android": "Android",
    "iPhone": "iOS",
    "iPad": "iPadOS",
    "Windows": "Windows",
    "Macintosh": "macOS",
    "Linux": "Linux",
}
ROLE_LABELS: Final = (
    gettext_noop("Platform admin"),
    gettext_noop("Finance admin"),
    gettext_noop("Auditor"),
    gettext_noop("Organization admin"),
    gettext_noop("Project lead"),
    gettext_noop("Member"),
)
"""What `Membership.role` is called, for its translation."""
BROWSER_LABEL_MAX: Final = 40
signed_in = login_required(login_url="sign_in")


def posted(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return a view that only acts on POST; any other method redirects to the page."""

    @wraps(view)
    def answer(request: HttpRequest, **arguments: UUID) -> HttpResponse:
        if request.method != "POST":
            return redirect("own_access")
        return view(request, **arguments)

    return answer


class PersonSignInForm(SignInForm):
    """The admin's form, for every active person."""

    error_messages = AuthenticationForm.error_messages

    def confirm_login_allowed(self, user: AbstractBaseUser) -> None:
        """Refuse deactivated people only.

        Raises:
            ValidationError: The person was deactivated.
        """
        if not user.is_active:
            raise ValidationError(self.error_messages["inactive"], code="inactive")


class SignInView(SitePage, views.LoginView):
    """Sign in; people are redirected to where they belong."""

    authentication_form = PersonSignInForm
    template_name = "accounts/form.html"
    redirect_authenticated_user = True
    extra_context = {
        "title": gettext_lazy("Sign in"),
        "button": gettext_lazy("Sign in"),
        "is_sign_in": True,
    }

    def form_invalid(self, form: Any) -> HttpResponse:  # noqa: ANN401 - Django's signature.
        """Show the errors, with status 429 when attempts are limited."""
        return as_limited(self.request, super().form_invalid(form))

    def get_redirect_url(self, request: HttpRequest | None = None) -> str:  # noqa: ARG002 - As the stubs have it; Django passes none.
        """Return what `next` names, unless that is this page, which would lead to itself."""
        named = super().get_redirect_url()
        return "" if urlsplit(named).path == self.request.path else named

    def get_default_redirect_url(self) -> str:
        """Return where to go without `next`: the root redirects to the pages of a person."""
        return reverse("root")


class ChangeOwnPasswordView(OwnPasswordView):
    """Change one's own password without the admin around it."""

    template_name = "accounts/form.html"
    success_url = reverse_lazy("own_access")
    extra_context = {
        "title": gettext_lazy("Change your password"),
        "button": gettext_lazy("Change the password"),
        "help": gettext_lazy("A new password ends your API tokens and all other sessions."),
    }

    def form_valid(self, form: Any) -> HttpResponse:  # noqa: ANN401 - A form of either kind.
        """Save, and show the result on the next page."""
        answer = super().form_valid(form)
        if not form.errors:
            done = gettext(
                "The password is changed; your API tokens and other sessions have ended."
            )
            messages.success(self.request, done)
        return answer


class TokenForm(forms.Form):
    """A token to issue to oneself."""

    key = forms.CharField(widget=forms.HiddenInput, required=False)
    name = forms.CharField(
        max_length=200,
        label=gettext_lazy("What it is for"),
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=LIFETIME_MAX.days,
        initial=30,
        label=gettext_lazy("Days until it ends"),
        help_text=format_lazy(gettext_lazy("At most {days}."), days=LIFETIME_MAX.days),
        widget=UnfoldAdminIntegerFieldWidget(),
    )
    scopes = forms.CharField(
        max_length=2_000,
        required=False,
        label=gettext_lazy("Scopes"),
        help_text=gettext_lazy(
            "Capabilities it is limited to, separated by spaces, as in metering:usage:read: "
            "the list under Your roles has yours. Empty for all that you may do."
        ),
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off"}),
    )


@signed_in
@require_safe
def own_access(request: HttpRequest) -> HttpResponse:
    """Show the signed-in person's tokens and sessions."""
    return _page(request, form=_empty_form(request))


@signed_in
@posted
def issue_own_token(request: HttpRequest) -> HttpResponse:
    """Issue a token and show its text in this one answer; it is stored nowhere."""
    form, actor, at = TokenForm(request.POST), actor_of_request(request), timezone.now()
    if not form.is_valid():
        return _page(request, form=form)
    try:
        token_id = read_token_key(form.cleaned_data["key"], actor)
    except DomainError as error:
        again = gettext("Send the form below once more.")
        messages.error(request, f"{error.message} {again}")
        return _page(request, form=_empty_form(request))
    try:
        issued = issue_asked_token(
            form, token_id=token_id, person=person_of(request), actor=actor, at=at
        )
    except TokenIssuedError as error:
        anew = gettext("To have another one, send the form anew.")
        messages.warning(request, f"{error.message} {anew}")
        return redirect("own_access")
    except DomainError as error:
        problems = [f"{one.field}: {one.message}" for one in error.problems]
        form.add_error(None, " ".join([error.message, *problems, error.advice]))
        return _page(request, form=form)
    return _page(request, form=_empty_form(request), issued=issued)


def issue_asked_token(
    form: TokenForm, *, token_id: UUID, person: User, actor: Actor, at: datetime
) -> IssuedToken:
    """Issue the token that a valid form asks for to its sender.

    Raises:
        TokenIssuedError: The form was sent before.
        DomainError: The token cannot be issued, of which there is an audit entry.
    """
    try:
        return issue_token(
            token_id=token_id,
            name=form.cleaned_data["name"],
            expires_at=at + timedelta(days=form.cleaned_data["days"]),
            scopes=form.cleaned_data["scopes"].split(),
            user=person,
            actor=actor,
            at=at,
        )
    except TokenIssuedError:
        raise
    except DomainError as error:
        note_refusal(refusal=error, noun="api_token", actor=actor, at=at)
        raise


@signed_in
@posted
def ask_first_token(request: HttpRequest) -> HttpResponse:
    """Ask for the first token of a role of the platform, which a platform admin approves."""
    try:
        ask_change(
            kind=ChangeKind.FIRST_TOKEN,
            subject=person_of(request),
            is_mail_set_up=is_mail_set_up(),
            actor=actor_of_request(request),
            at=timezone.now(),
        )
    except DomainError as error:
        messages.error(request, f"{error.message} {error.advice}")
    return redirect("own_access")


@signed_in
@posted
def end_own_token(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """Revoke one of one's own tokens."""
    actor, at = actor_of_request(request), timezone.now()
    try:
        token = access_seen(own_tokens(actor, at=at), token_id)
        revoke_token(token=token, actor=actor, at=at)
        messages.success(request, gettext("The token has ended."))
    except DomainError as error:
        messages.error(request, f"{error.message} {error.advice}")
    return redirect("own_access")


@signed_in
@posted
def end_own_sessions(request: HttpRequest) -> HttpResponse:
    """End the session that is named, or all but this one."""
    user, actor, at = person_of(request), actor_of_request(request), timezone.now()
    named = request.POST.get("session")
    try:
        if named:
            end_session(user=user, session_id=UUID(named), actor=actor, at=at)
            messages.success(request, gettext("The session has ended."))
        else:
            keep = current_session_id(request)
            ended = end_other_sessions(user=user, keep=keep, actor=actor, at=at)
            text = ngettext("{ended} session has ended.", "{ended} sessions have ended.", ended)
            messages.success(request, text.format(ended=ended))
    except (DomainError, ValueError):
        text = gettext("There is no such session. It may have ended by itself.")
        messages.error(request, text)
    return redirect("own_access")


def _empty_form(request: HttpRequest) -> TokenForm:
    return TokenForm(initial={"key": new_token_key(actor_of_request(request))})


def _page(
    request: HttpRequest, *, form: TokenForm, issued: IssuedToken | None = None
) -> HttpResponse:
    at, person, actor = timezone.now(), person_of(request), actor_of_request(request)
    is_alone_enough = not holds_platform_role(person) or has_first_token(person, at=at)
    context = {
        **admin.site.each_context(request),
        "title": gettext("Your access"),
        "form": form,
        "issued": issued,
        "needs_second_person": not is_alone_enough,
        "asked": None if is_alone_enough else open_first_token(person, at=at),
        "roles": roles_of(person),
        "capabilities": sorted(frozenset().union(*(CAPABILITIES[g.role] for g in actor.grants))),
        "tokens": own_tokens(actor, at=at),
        "sessions": [
            replace(session, browser=_browser_label(session.browser))
            for session in sessions_of(person, current=current_session_id(request), at=at)
        ],
    }
    return TemplateResponse(
        request, "accounts/access.html", context, headers={"Cache-Control": "no-store"}
    )


def _browser_label(agent: str) -> str:
    """Return a browser as people know it; what it says itself where it is no known one."""
    browser = next((label for sign, label in BROWSERS.items() if sign in agent), "")
    system = next((label for sign, label in SYSTEMS.items() if sign in agent), "")
    if browser and system:
        return gettext("{browser} on {system}").format(browser=browser, system=system)
    return agent[:BROWSER_LABEL_MAX] or gettext("unknown")


def person_of(request: HttpRequest) -> User:
    """Return the signed-in person.

    Raises:
        PermissionDenied: None is.
    """
    if not isinstance(request.user, User):
        raise PermissionDenied
    return request.user

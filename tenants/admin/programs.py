"""Admin pages of service accounts and API tokens; no secret is ever shown twice.

A form that issues a token brings the token's id, signed, so that reloading the answer cannot issue
another one: the database holds an id once.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django import forms
from django.contrib import admin
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext

from tenants.admin.base import RowForm, ServiceAdmin, ServiceForm, actor_of_request, row_action
from tenants.domain.actors import Actor
from tenants.domain.errors import InvalidInputError
from tenants.domain.identifiers import new_id
from tenants.models import ApiToken, ServiceAccount
from tenants.services.identity import tokens
from tenants.services.identity import tokens as service_accounts

_KEY_SALT: Final = "tenants.token_form"


def new_token_key(actor: Actor) -> str:
    """Return what a form to issue a token carries: the id the token will have, for one person."""
    return signing.dumps([actor.id, str(new_id())], salt=_KEY_SALT)


def read_token_key(key: str, actor: Actor) -> UUID:
    """Return the id of the token to issue.

    Raises:
        InvalidInputError: The form was made for another person, or not here.
    """
    try:
        person_id, token_id = signing.loads(key, salt=_KEY_SALT)
    except signing.BadSignature:
        person_id, token_id = "", ""
    if not token_id or person_id != actor.id:
        raise InvalidInputError(
            "This form is not from this page.", remedy="Open the page anew and send it again."
        )
    return UUID(token_id)


class TokenKeyForm(ServiceForm):
    """A form that issues one token, however often it is sent."""

    key = forms.CharField(widget=forms.HiddenInput, required=False)


@admin.register(ServiceAccount)
class ServiceAccountAdmin(ServiceAdmin):
    """Programs that act for an organization."""

    view_capability = "tenants:membership:read"
    write_capability = "tenants:token:write"
    hint = "A closed service account keeps its slug; its tokens are revoked with it."
    add_fields = ("organization", "slug", "name")
    list_display = ("name", "slug", "organization", "state", "created_at")
    list_filter = ("state", "organization")
    list_select_related = ("organization",)
    search_fields = ("name", "slug", "organization__name")
    autocomplete_fields = ("organization",)
    actions = ("close_accounts",)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> ServiceAccount:
        """Make a service account."""
        return service_accounts.create_service_account(**fields, actor=actor, at=at)

    @row_action("Close, revoking tokens", done="is closed")
    def close_accounts(self, row: ServiceAccount, *, actor: Actor, at: datetime) -> None:
        """Close a service account."""
        service_accounts.close_service_account(account=row, actor=actor, at=at)


@admin.register(ApiToken)
class ApiTokenAdmin(ServiceAdmin):
    """API tokens of programs."""

    view_capability = "tenants:token:write"
    write_capability = "tenants:token:write"
    hint = (
        "A token's text is shown once, when it is issued. People issue their own under Your access."
    )
    form = TokenKeyForm
    add_fields = ("service_account", "name", "expires_at", "scopes", "key")
    fields = (
        "name",
        "prefix",
        "user",
        "service_account",
        "scopes",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
    )
    list_display = ("name", "prefix", "holder", "expires_at", "revoked_at", "last_used_at")
    list_filter = ("revoked_at", "expires_at")
    list_select_related = ("user", "service_account")
    search_fields = ("name", "prefix", "user__username", "service_account__slug")
    autocomplete_fields = ("service_account",)
    actions = ("revoke_tokens",)

    @admin.display(description="holder")
    def holder(self, token: ApiToken) -> str:
        """Return the holder of the token."""
        return str(token.user or token.service_account)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> ApiToken:
        """Issue a token to a service account, keeping its text for this one answer."""
        wanted = dict(fields)
        token_id = read_token_key(wanted.pop("key"), actor)
        issued = tokens.issue_token(**wanted, token_id=token_id, actor=actor, at=at)
        issued.token.text = issued.text  # type: ignore[attr-defined]
        return issued.token

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the empty form begins with."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        return {**initial, "key": new_token_key(actor_of_request(request))}

    def get_form(self, request: HttpRequest, obj: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Return the form; the holder is a service account, which therefore must be named."""
        form: type[RowForm] = super().get_form(request, obj, *args, **kwargs)
        if "service_account" in form.base_fields:
            form.base_fields["service_account"].required = True
        return form

    def response_add(
        self,
        request: HttpRequest,
        obj: ApiToken,
        post_url_continue: str | None = None,  # noqa: ARG002 - Django's signature.
    ) -> HttpResponse:
        """Return a page with the text, once; it is not stored, not even in the session."""
        context = {
            **self.admin_site.each_context(request),
            "title": gettext("Token issued"),
            "token": obj,
            "text": obj.text,  # type: ignore[attr-defined]
        }
        return TemplateResponse(
            request,
            "admin/tenants/apitoken/issued.html",
            context,
            headers={"Cache-Control": "no-store"},
        )

    @row_action("Revoke", done="is revoked")
    def revoke_tokens(self, row: ApiToken, *, actor: Actor, at: datetime) -> None:
        """Revoke a token."""
        tokens.revoke_token(token=row, actor=actor, at=at)

"""The page of one's own API tokens: list, create, revoke."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods

from config.app.frame import render_page, tenant_page
from tenants.access import access_seen, own_tokens
from tenants.admin.base import actor_of_request
from tenants.admin.own_access import TokenForm, issue_asked_token, person_of
from tenants.admin.programs import new_token_key, read_token_key
from tenants.domain.errors import DomainError, InvalidInputError
from tenants.services.identity.tokens import IssuedToken, revoke_token


@tenant_page
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """Show the person's tokens; a POST creates one, and its text is in this answer alone."""
    if request.method != "POST":
        return _page(request, _empty_form(request))
    form, actor, at = TokenForm(request.POST), actor_of_request(request), timezone.now()
    if not form.is_valid():
        return _page(request, form, status=InvalidInputError.status)
    try:
        token_id = read_token_key(form.cleaned_data["key"], actor)
        issued = issue_asked_token(
            form, token_id=token_id, person=person_of(request), actor=actor, at=at
        )
    except DomainError as error:
        anew = TokenForm({**request.POST.dict(), "key": new_token_key(actor)})
        return _page(request, anew, refusal=error, status=error.status)
    return _page(request, _empty_form(request), issued=issued)


@tenant_page
def revoke(request: HttpRequest, token_id: UUID) -> HttpResponse:
    """Revoke one of the person's own tokens; a GET only shows them."""
    if request.method != "POST":
        return redirect("app_tokens")
    actor, at = actor_of_request(request), timezone.now()
    token = access_seen(own_tokens(actor, at=at), token_id)
    revoke_token(token=token, actor=actor, at=at)
    messages.success(request, gettext("The token {name} is revoked.").format(name=token.name))
    return redirect("app_tokens")


def _empty_form(request: HttpRequest) -> TokenForm:
    return TokenForm(initial={"key": new_token_key(actor_of_request(request))})


def _page(
    request: HttpRequest,
    form: TokenForm,
    *,
    issued: IssuedToken | None = None,
    refusal: DomainError | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "form": form,
        "issued": issued,
        "refusal": refusal,
        "tokens": own_tokens(actor_of_request(request), at=timezone.now()),
    }
    return render_page(
        request,
        "app/tokens.html",
        context,
        title=gettext("API tokens"),
        twin="/api/v1/api-tokens/",
        status=status,
    )

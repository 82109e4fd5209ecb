"""The page of one's own sessions, in the menu of the signed-in person."""

from uuid import UUID

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from tenants.admin.base import actor_of_request
from tenants.admin.session_limits import current_session_id
from tenants.domain.errors import DomainError
from tenants.selectors.sessions import sessions_of
from tenants.services.sessions import end_other_sessions, end_session


@require_http_methods(["GET", "POST"])
def own_sessions(request: HttpRequest) -> HttpResponse:
    """List the signed-in person's sessions; a button ends one, another all others."""
    if not isinstance(request.user, User):
        raise PermissionDenied
    if request.method == "POST":
        _end(request, request.user)
        return redirect("own_sessions")
    context = {
        **admin.site.each_context(request),
        "title": "Your sessions",
        "sessions": sessions_of(
            request.user, current=current_session_id(request), at=timezone.now()
        ),
    }
    return TemplateResponse(request, "accounts/sessions.html", context)


def _end(request: HttpRequest, user: User) -> None:
    actor, at, named = actor_of_request(request), timezone.now(), request.POST.get("session")
    try:
        if named:
            end_session(user=user, session_id=UUID(named), actor=actor, at=at)
            messages.success(request, "The session has ended.")
        else:
            keep = current_session_id(request)
            ended = end_other_sessions(user=user, keep=keep, actor=actor, at=at)
            messages.success(request, f"{ended} sessions have ended.")
    except (DomainError, ValueError):
        messages.error(request, "There is no such session. It may have ended by itself.")

"""The page where people choose what they are mailed about, and in which language."""

import re
from dataclasses import dataclass
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_http_methods

from config.app.frame import render_page, tenant_page
from tenants.admin.base import actor_of_request
from tenants.admin.own_access import person_of
from tenants.domain.actors import Actor
from tenants.domain.errors import InvalidInputError
from tenants.domain.identity.roles import Role
from tenants.domain.notification_events import events_of_roles
from tenants.models import NotificationPreference
from tenants.models.organization import Language
from tenants.selectors.notifications import preference_of
from tenants.services.notifications.preferences import choose_notifications

VERSION: Final = re.compile(r"[1-9][0-9]{0,8}")
_GROUPS = {
    "quotas": gettext_lazy("Quota"),
    "billing": gettext_lazy("Invoices"),
    "metering": gettext_lazy("Metering"),
    "tenants": gettext_lazy("Accounts"),
}
"""Headings by app, in the order of the page."""


@dataclass(frozen=True)
class EventChoice:
    """An event on the page."""

    name: str
    label: str
    when: str
    is_mailed: bool


@tenant_page
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: HttpRequest) -> HttpResponse:
    """Show the person's choices; a POST saves them."""
    actor, preference = actor_of_request(request), preference_of(person_of(request))
    if request.method != "POST":
        return _page(request, actor, preference)
    shown = set(events_of_roles(_roles(actor)))
    kept = set(preference.muted_events) - shown
    choose_notifications(
        person=person_of(request),
        muted_events=sorted(kept | (shown - set(request.POST.getlist("events")))),
        language=request.POST.get("language", ""),
        expected_version=_version(request),
        actor=actor,
        at=timezone.now(),
    )
    messages.success(
        request, gettext("Your choice is saved. It holds for what is reported from now on.")
    )
    return redirect("app_notifications")


def _version(request: HttpRequest) -> int:
    text = request.POST.get("version", "")
    if not VERSION.fullmatch(text):
        raise InvalidInputError(
            gettext("The form names no version."),
            field="version",
            remedy=gettext("Open the page again."),
        )
    return int(text)


def _roles(actor: Actor) -> list[Role]:
    return [grant.role for grant in actor.grants]


def _page(request: HttpRequest, actor: Actor, preference: NotificationPreference) -> HttpResponse:
    muted = set(preference.muted_events)
    choices = [
        EventChoice(
            name, gettext(event.label), gettext(event.when.replace("`", "")), name not in muted
        )
        for name, event in events_of_roles(_roles(actor)).items()
    ]
    groups = [
        (heading, [one for one in choices if one.name.startswith(f"{app}:")])
        for app, heading in _GROUPS.items()
    ]
    context = {
        "groups": [(heading, chosen) for heading, chosen in groups if chosen],
        "languages": [
            ("", gettext("As the document, else English")),
            *((code, gettext(name)) for code, name in Language.choices),
        ],
        "preference": preference,
        "address": person_of(request).email,
    }
    return render_page(
        request,
        "app/notifications.html",
        context,
        title=gettext("Notifications"),
        twin="/api/v1/me/notifications/",
    )

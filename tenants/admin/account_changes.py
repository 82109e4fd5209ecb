"""Admin page of changes to accounts that take a second person; what is open comes first."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar, Final

from django.contrib import admin
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy
from unfold.widgets import UnfoldAdminSelectWidget

from tenants.adapters.mail import is_mail_set_up
from tenants.admin.base import ServiceAdmin, ServiceForm, actor_of_request, row_action
from tenants.admin.links import send_address_link
from tenants.domain.actors import Actor
from tenants.domain.identity.account_changes import (
    PLATFORM_ROLES,
    ChangeKind,
    ChangeState,
    may_ask_of_others,
    may_ask_some,
)
from tenants.models import AccountChange
from tenants.services.identity import account_changes

KINDS: Final = {
    ChangeKind.ROLE: gettext_lazy("A role of the platform"),
    ChangeKind.STAFF: gettext_lazy("Staff status: the admin opens"),
    ChangeKind.FIRST_TOKEN: gettext_lazy("The first API token"),
    ChangeKind.EMAIL: gettext_lazy("Another mail address"),
    ChangeKind.USERNAME: gettext_lazy("Another user name"),
    ChangeKind.ACTIVATE: gettext_lazy("Activate the account"),
}


class AskForm(ServiceForm):
    """A change to ask for; what else is sent is left to the service, which audits its refusal."""

    asker: ClassVar[Actor]

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Offer the kinds that the asker may ask for, and people where there is a choice."""
        super().__init__(*args, **kwargs)
        if "kind" not in self.fields:
            return
        asker, kind, value = type(self).asker, self.fields["kind"], self.fields["value"]
        offered = [(one.value, label) for one, label in KINDS.items() if may_ask_some(asker, one)]
        kind.label, value.label = gettext("What to change"), gettext("New value")
        self.fields["subject"].label = gettext("Whose account")
        kind.widget = UnfoldAdminSelectWidget(choices=[("", gettext("Select value")), *offered])
        value.help_text = gettext("The address or the user name; empty for the other kinds.")
        if may_ask_of_others(asker):
            roles = ", ".join(sorted(PLATFORM_ROLES))
            text = gettext("The role ({roles}), the address or the user name; else empty.")
            value.help_text = text.format(roles=roles)
            return
        subject = self.fields["subject"]
        subject.widget = UnfoldAdminSelectWidget(choices=[(int(asker.id), asker.label)])
        subject.initial = int(asker.id)


@admin.register(AccountChange)
class AccountChangeAdmin(ServiceAdmin):
    """What waits: roles of the platform, access to the admin, first tokens, addresses, names."""

    view_capability = "tenants:membership:read"
    write_capability = "tenants:membership:read"
    undecided = ChangeState.OPEN.value
    hint = (
        "One person asks, another approves; neither the requester nor the person concerned "
        "may approve. A new address is confirmed by a link to the old one as well. Value: "
        "the role, the address or the user name; empty otherwise. A role, staff status, "
        "another address and activation end the person's password, sessions and tokens; a "
        "link goes to the person's address."
    )
    form = AskForm
    add_fields = ("kind", "subject", "value")
    list_display = (
        "username",
        "email",
        "kind",
        "value",
        "state",
        "requested_by",
        "requested_at",
        "expires_at",
        "decided_by",
        "decided_at",
    )
    list_filter = ("state", "kind")
    list_select_related = ("subject", "requested_by", "decided_by")
    search_fields = ("subject__username",)
    autocomplete_fields = ("subject",)
    actions = ("approve_changes", "decline_changes")

    def get_form(self, request: HttpRequest, obj: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - Django's signature.
        """Return the form, which offers what the signed-in person may ask for."""
        form: Any = super().get_form(request, obj, *args, **kwargs)
        form.asker = actor_of_request(request)
        return form

    def get_ordering(self, request: HttpRequest) -> list[str]:  # noqa: ARG002 - Django's signature.
        """Return the order of the list: open ones first, then by when they were asked for."""
        return ["decided_at", "-requested_at"]

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> AccountChange:
        """Ask for a change."""
        change = account_changes.ask_change(
            kind=ChangeKind(fields["kind"]),
            subject=fields["subject"],
            value=fields["value"],
            is_mail_set_up=is_mail_set_up(),
            actor=actor,
            at=at,
        )
        send_address_link(change)
        return change

    @row_action("Approve", done="is approved")
    def approve_changes(self, row: AccountChange, *, actor: Actor, at: datetime) -> None:
        """Approve a change."""
        account_changes.approve_change(change_id=row.pk, actor=actor, at=at)

    @row_action("Decline", done="is declined")
    def decline_changes(self, row: AccountChange, *, actor: Actor, at: datetime) -> None:
        """Decline a change."""
        account_changes.decline_change(change_id=row.pk, actor=actor, at=at)

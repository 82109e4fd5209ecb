"""Bases of every app's admin pages: ledgers that are only read, and tables written by services.

    @admin.register(UsageRecord)
    class UsageRecordAdmin(LedgerAdmin):
        view_capability = "metering:usage:read"

    @admin.register(Project)
    class ProjectAdmin(ServiceAdmin):
        view_capability, write_capability = "tenants:project:read", "tenants:project:write"

        def add(self, fields, *, actor, at): return create_project(**fields, actor=actor, at=at)

Pages are for people with a platform role: a role in one organization opens none of them. Buttons
are list actions, which are POSTs with a CSRF token; nothing changes by following a link.
"""

import functools
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Field, Model, QuerySet, URLField
from django.http import HttpRequest
from django.http.response import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext

from tenants.admin.lists import DatedAdmin, moment_of
from tenants.admin.refusals import refusal_sentence, refusal_texts, refusals_of
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.roles import RoleScope
from tenants.domain.refusals import UnauthenticatedError
from tenants.selectors.actors import actor_of_user
from tenants.services.audit import note_refusal
from tenants.services.changing import noun_of
from tenants.templatetags.texts import english, who_may_text

__all__ = [
    "LedgerAdmin",
    "RowForm",
    "ServiceAdmin",
    "ServiceForm",
    "actor_of_request",
    "row_action",
]

_CACHE = "_ledger_actor"
RowCall = Callable[..., object]
Action = Callable[[Any, HttpRequest, QuerySet[Any]], None]

if TYPE_CHECKING:
    RowForm = forms.ModelForm[Model]
else:
    RowForm = forms.ModelForm


class LedgerAdmin(DatedAdmin):
    """Read-only pages of a table.

    Attributes:
        view_capability: Required over the whole platform to view.
        write_capability: Required over the whole platform for buttons and forms.
        hint: One sentence above the list: what writes these rows and how they change.
        undecided: The state in which a row's own page has the buttons of the list, too; "" for no
            such state.
        approving: Under four eyes, the action that another person does than `requested_by_id`; a
            row's page has no button of it for that person.
    """

    view_capability: ClassVar[str]
    write_capability: ClassVar[str] = ""
    hint: ClassVar[str] = ""
    undecided: ClassVar[str] = ""
    approving: ClassVar[str] = ""
    change_form_outer_after_template = "admin/decide.html"
    list_before_template = "admin/ledger_hint.html"
    compressed_fields = True
    show_full_result_count = False
    list_per_page = 20
    """A row is up to 9 KiB, and a page at most 300 KiB."""

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        """Whether the signed-in person holds the capability to look."""
        return holds(request, self.view_capability)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the table is listed in the menu."""
        return self.has_view_permission(request)

    def has_write_permission(self, request: HttpRequest) -> bool:
        """Whether the buttons are shown; name it in `@admin.action(permissions=["write"])`."""
        return bool(self.write_capability) and holds(request, self.write_capability)

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002 - Django's signature.
        """Always False."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        """Always False."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        """Always False."""
        return False

    def formfield_for_dbfield(
        self,
        db_field: "Field[Any, Any]",
        request: HttpRequest,
        **kwargs: Any,  # noqa: ANN401 - Django's signature.
    ) -> forms.Field | None:
        """Return a column's form field; an address typed without a scheme means https."""
        if isinstance(db_field, URLField):
            kwargs["assume_scheme"] = "https"
        made: forms.Field | None = super().formfield_for_dbfield(db_field, request, **kwargs)
        return made

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Add `hint` to the list's context."""
        answer: HttpResponse = super().changelist_view(
            request, {"hint": self.hint and gettext(self.hint), **(extra_context or {})}
        )
        return answer

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Add the buttons of an undecided row to the context of its page."""
        buttons = self._buttons(request, object_id) if self.undecided else {}
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, {**buttons, **(extra_context or {})}
        )
        return answer

    def _buttons(self, request: HttpRequest, object_id: str) -> dict[str, Any]:
        """Return what the buttons post to the list, where the signed-in person has any."""
        found = [(name, text) for _, name, text in self.get_actions(request).values()]
        is_own = bool(found) and self._is_own(request, object_id)
        found = [one for one in found if not (is_own and one[0] == self.approving)]
        return {
            "decisions": found
            and {
                "state": self.undecided,
                "others": is_own
                and who_may_text(self.write_capability, reach={RoleScope.PLATFORM}),
                "action": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
                "has_note": "note" in self.action_form.base_fields,
                "choices": found,
            }
        }

    def _is_own(self, request: HttpRequest, object_id: str) -> bool:
        """Whether the signed-in person asked for a row that another person has to approve."""
        row = self.get_object(request, object_id) if self.approving and settings.FOUR_EYES else None
        return row is not None and row.requested_by_id == actor_of_request(request).id

    def page_context(self, request: HttpRequest, *, title: str) -> dict[str, Any]:
        """Return the context of every page below this table's list.

        The theme builds the breadcrumbs from it: app, table and title.
        """
        return {
            **self.admin_site.each_context(request),
            "model_admin": self,
            "title": title,
            "content_title": title,
        }

    def for_each(
        self,
        request: HttpRequest,
        rows: QuerySet[Any],
        call: Callable[[Any, Actor, datetime], object],
        *,
        done: str,
    ) -> None:
        """Call a service for every chosen row as the signed-in person; show the results.

        Args:
            request: The POST of the action.
            rows: The chosen rows.
            call: Takes a row, the actor and the time; neither a refusal nor a fault stops the
                other rows.
            done: What happened to each row, such as "was closed".
        """
        actor, at = actor_of_request(request), timezone.now()
        for row in rows:
            audit = functools.partial(self.audit_refusal, object_id=row.pk, actor=actor, at=at)
            texts = refusals_of(
                functools.partial(call, row, actor, at),
                audit=audit,
                event="admin.action.failed",
                key=row.pk,
                at=at,
            )
            for text in texts:
                self.message_user(request, format_html("{}: {}", row, text), messages.ERROR)
            if not texts:
                self.message_user(request, f"{row} {gettext(done)}.", messages.SUCCESS)

    def audit_refusal(
        self, error: DomainError, *, object_id: object, actor: Actor, at: datetime
    ) -> None:
        """Audit a refusal that auditors look for, once the service's transaction is undone."""
        noun = noun_of(self.model)
        note_refusal(refusal=error, noun=noun, object_id=object_id, actor=actor, at=at)

    def report_refusal(self, request: HttpRequest, error: DomainError) -> None:
        """Show a refusal with its remedy, and every problem it names."""
        for text in refusal_texts(error):
            self.message_user(request, text, messages.ERROR)


class ServiceForm(RowForm):
    """A form that saves by a service call and shows refusals beside their fields."""

    perform: ClassVar[Callable[[RowForm], Model]]

    def _post_clean(self) -> None:
        """Call the service instead of validating and saving the model here."""
        if self.errors:
            return
        try:
            self.instance = type(self).perform(self)
        except DomainError as error:
            if not error.problems:
                self.add_error(self._place(error.field), refusal_sentence(error))
            for problem in error.problems:
                self.add_error(self._place(problem.field), english(problem.message))

    def _place(self, field: str) -> str | None:
        name = field.split(".", 1)[0]
        return name if name in self.fields else None


class ServiceAdmin(LedgerAdmin):
    """Pages of a table that is written through services.

    Attributes:
        add_fields: Fields of the form that adds; none when nothing is added here.
        change_fields: Fields of the form that changes; none when nothing is changed here.
        help_texts: A sentence below a field of the form that adds, by its name.
    """

    form = ServiceForm
    add_fields: ClassVar[tuple[str, ...]] = ()
    change_fields: ClassVar[tuple[str, ...]] = ()
    help_texts: ClassVar[Mapping[str, str]] = {}

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> Model:
        """Call the service that makes a row from the form's fields."""
        raise NotImplementedError

    def change(
        self,
        row: Any,  # noqa: ANN401 - The table's row.
        changes: Mapping[str, Any],
        *,
        actor: Actor,
        at: datetime,
    ) -> Model:
        """Call the service that changes a row; only changed fields are passed."""
        raise NotImplementedError

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whether the signed-in person may add rows here."""
        return bool(self.add_fields) and self.has_write_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:  # noqa: ARG002
        """Whether the signed-in person may change rows here."""
        return bool(self.change_fields) and self.has_write_permission(request)

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> list[str]:
        """Return the fields of the form that adds, or every field of a row."""
        if obj is None:
            return list(self.add_fields)
        return list(super().get_fields(request, obj))

    def get_readonly_fields(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: Model | None = None,
    ) -> tuple[str, ...]:
        """Return what a form shows without letting it be changed."""
        if obj is None:
            return ()
        shown = [field.name for field in self.model._meta.fields]  # noqa: SLF001 - Model meta.
        return tuple(name for name in shown if name not in self.change_fields)

    def get_form(
        self,
        request: HttpRequest,
        obj: Model | None = None,
        change: bool = False,  # noqa: FBT001, FBT002 - Django's signature.
        **kwargs: Any,  # noqa: ANN401 - As above.
    ) -> type[RowForm]:
        """Return a form that calls this page's service as the signed-in person."""
        if obj is None:
            kwargs = {"help_texts": self.help_texts, **kwargs}
        form: type[RowForm] = super().get_form(request, obj, change, **kwargs)

        def perform(filled: RowForm) -> Model:
            actor, at = actor_of_request(request), timezone.now()
            try:
                if obj is None:
                    return self.add(dict(filled.cleaned_data), actor=actor, at=at)
                changes = {name: filled.cleaned_data[name] for name in filled.changed_data}
                return self.change(obj, changes, actor=actor, at=at) if changes else obj
            except DomainError as error:
                self.audit_refusal(
                    error, object_id="" if obj is None else obj.pk, actor=actor, at=at
                )
                raise

        return type(form.__name__, (form,), {"perform": staticmethod(perform)})

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return what a link fills into the form that adds; times in it are ISO 8601."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        for name, field in self.form.base_fields.items():
            if isinstance(field, forms.SplitDateTimeField) and name in initial:
                initial[name] = moment_of(str(initial[name]))
        return initial

    def save_model(
        self,
        request: HttpRequest,
        obj: Model,
        form: RowForm,
        change: bool,  # noqa: FBT001 - Django's signature.
    ) -> None:
        """Do nothing: the form has called the service."""


def row_action(description: str, *, done: str) -> Callable[[RowCall], Action]:
    """Return a decorator that makes a list action of what is done to one row.

        @row_action("Close", done="is closed")
        def close_projects(self, row: Project, *, actor: Actor, at: datetime) -> None: ...

    It needs `write_capability`; a refusal does not stop the other rows.

    Args:
        description: The action in the list's menu.
        done: What happened to each row, such as "was closed".
    """

    def decorate(call: RowCall) -> Action:
        @admin.action(description=description, permissions=["write"])
        @functools.wraps(call)
        def act(page: LedgerAdmin, request: HttpRequest, rows: QuerySet[Any]) -> None:
            page.for_each(
                request,
                rows,
                lambda row, actor, at: call(page, row, actor=actor, at=at),
                done=done,
            )

        act.done = done  # type: ignore[attr-defined] # The site marks it to be translated.
        return act

    return decorate


def actor_of_request(request: HttpRequest) -> Actor:
    """Return the signed-in actor with its present roles; looked up once per request.

    Raises:
        UnauthenticatedError: The user was deactivated.
    """
    known: Actor | None = getattr(request, _CACHE, None)
    if known is None:
        if not isinstance(request.user, User):
            raise UnauthenticatedError("Nobody is signed in.")
        known = actor_of_user(request.user)
        setattr(request, _CACHE, known)
    return known


def holds(request: HttpRequest, capability: str) -> bool:
    """Whether a signed-in member of staff holds a capability over the whole platform."""
    if not (request.user.is_authenticated and request.user.is_staff):
        return False
    try:
        return actor_of_request(request).may(capability)
    except UnauthenticatedError:
        return False

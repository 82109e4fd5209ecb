"""Admin pages of scheduled exports: schedules, and runs with their files."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, path, reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop
from unfold.decorators import display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from billing.access.exports import READ_EXPORT, WRITE_EXPORT, access_file
from billing.domain.exports.schedules import (
    BUNDLE,
    CONTENTS,
    OPEN_STATES,
    ExportRunState,
    content_label,
)
from billing.domain.period import Month
from billing.models import ExportRun, ExportSchedule
from billing.selectors.exports.runs import chunks_of
from billing.services.exports.schedules import (
    change_schedule,
    close_schedule,
    create_schedule,
    request_run,
    retry_run,
)
from tenants.admin.base import (
    LedgerAdmin,
    ServiceAdmin,
    ServiceForm,
    actor_of_request,
    row_action,
)
from tenants.domain.actors import Actor
from tenants.domain.errors import DomainError
from tenants.templatetags.texts import english, value_text

BUNDLE_LABEL: Final = gettext_noop("Month, as one zip of all files")


def _label(content: str) -> str:
    """Return a content as `content_label` has it, in the language of the page."""
    if content == BUNDLE:
        return gettext(BUNDLE_LABEL)
    name, comma, form = content_label(content).partition(", ")
    return f"{gettext(name)}{comma}{form}"


class ScheduleForm(ServiceForm):
    """A schedule, whose contents are chosen from a list."""

    contents = forms.MultipleChoiceField(
        choices=lambda: [(one, _label(one)) for one in CONTENTS],
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text="Each is a file of its own. The journal is of all organizations only.",
    )


@admin.register(ExportSchedule)
class ExportScheduleAdmin(ServiceAdmin):
    """What of each month is delivered where."""

    form = ScheduleForm
    view_capability = READ_EXPORT
    write_capability = WRITE_EXPORT
    hint = (
        "On its day of each month the month before is delivered. Secrets are in variables of the "
        "workers that env:EXPORT_SECRET_<NAME> names; they are stored and shown nowhere."
    )
    add_fields = (
        "slug",
        "organization",
        "contents",
        "target",
        "address",
        "secret_reference",
        "host_key",
        "day",
        "hour",
        "waits_for_close",
    )
    change_fields = ("contents", "day", "hour", "waits_for_close")
    help_texts = {
        "organization": "Empty for all organizations.",
        "address": "A mail address; https://host/bucket/folder, with ?region= where needed; "
        "sftp://user@host/folder; or the https URL of a webhook.",
        "secret_reference": "env:EXPORT_SECRET_ and a name. Bucket: access key, colon, secret key. "
        "SFTP: password or private key. Webhook: whsec_ and base64. Empty for mail.",
        "host_key": "Of an SFTP server, as ssh-keyscan prints it, without the host.",
        "day": "1 to 28, of the month after the exported one.",
        "hour": "0 to 23, in UTC.",
        "waits_for_close": "A run waits until every billing period of its month is closed.",
    }
    list_display = ("slug", "organization", "shown_contents", "target", "shown", "time", "state")
    list_filter = ("target", "state", "organization")
    list_select_related = ("organization",)
    search_fields = ("slug",)
    autocomplete_fields = ("organization",)
    actions = ("export_now", "close_schedules")

    def get_exclude(
        self,
        request: HttpRequest,  # noqa: ARG002 - Django's signature.
        obj: Model | None = None,
    ) -> tuple[str, ...]:
        """Return what a schedule's page leaves out: the address as it was typed."""
        return () if obj is None else ("address",)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Model | None = None
    ) -> tuple[str, ...]:
        """Return the read-only fields; the masked address replaces the full one."""
        fields = super().get_readonly_fields(request, obj)
        return tuple("shown" if name == "address" else name for name in fields)

    def add(self, fields: Mapping[str, Any], *, actor: Actor, at: datetime) -> ExportSchedule:
        """Make a schedule."""
        return create_schedule(
            **fields, clear_text_hosts=settings.WEBHOOK_CLEAR_TEXT_HOSTS, actor=actor, at=at
        )

    def change(
        self, row: ExportSchedule, changes: Mapping[str, Any], *, actor: Actor, at: datetime
    ) -> ExportSchedule:
        """Change what is delivered, and when."""
        return change_schedule(schedule=row, changes=changes, actor=actor, at=at)

    @row_action("Export last month now", done="is exported within a minute; see Export runs")
    def export_now(self, row: ExportSchedule, *, actor: Actor, at: datetime) -> None:
        """Export the month before this one."""
        month = Month(at.year, at.month).shift(-1).label
        request_run(schedule=row, month=month, actor=actor, at=at)

    @row_action("Close", done="is closed")
    def close_schedules(self, row: ExportSchedule, *, actor: Actor, at: datetime) -> None:
        """End a schedule."""
        close_schedule(schedule=row, actor=actor, at=at)

    @admin.display(description="contents")
    def shown_contents(self, row: ExportSchedule) -> str:
        """Return what is delivered, as text."""
        return "; ".join(_label(one) for one in row.contents)

    @admin.display(description="address", ordering="address")
    def shown(self, row: ExportSchedule) -> str:
        """Return the address without tokens."""
        return row.shown_address

    @admin.display(description="time (UTC)", ordering="day")
    def time(self, row: ExportSchedule) -> str:
        """Return day and hour as text."""
        return gettext("day {day}, {hour}:00").format(day=row.day, hour=f"{row.hour:02d}")


@admin.register(ExportRun)
class ExportRunAdmin(LedgerAdmin):
    """Runs of schedules: delivered, under way, and failed until a person acts."""

    view_capability = READ_EXPORT
    write_capability = WRITE_EXPORT
    undecided = ExportRunState.FAILED.value
    hint = (
        "All files of a run are of one state of the ledger. A failed run says what to do; Try "
        "again goes on with the file that was not delivered, under the same name."
    )
    actions = ("try_again",)
    change_form_outer_before_template = "admin/billing/exportrun/files.html"
    list_display = ("created_at", "schedule", "month", "number", "state_label", "note", "next_try")
    list_filter = ("state", "schedule")
    list_select_related = ("schedule",)
    fields = ("schedule", "month", "number", "requested_by", "made_at", "finished_at")
    search_fields = ("schedule__slug", "month")
    day_column = "created_at"

    def get_urls(self) -> list[URLPattern | URLResolver]:
        """Return the address of a file before the pages of every table."""
        own = path(
            "files/<uuid:file_id>/",
            self.admin_site.admin_view(self.download_file),
            name="billing_exportrun_file",
        )
        return [own, *super().get_urls()]

    def download_file(self, request: HttpRequest, file_id: UUID) -> HttpResponseBase:
        """Return a file of a run, or go back with the reason why not."""
        try:
            file = access_file(actor_of_request(request), file_id)
            chunks = chunks_of(file)
        except DomainError as error:
            self.report_refusal(request, error)
            return redirect("admin:billing_exportrun_changelist")
        return StreamingHttpResponse(
            chunks,
            content_type=file.content_type,
            headers={
                "Content-Disposition": f'attachment; filename="{file.name}"',
                "Cache-Control": "private, no-store",
            },
        )

    @row_action("Try again", done="is tried again within a minute")
    def try_again(self, row: ExportRun, *, actor: Actor, at: datetime) -> None:
        """Go on with a failed run."""
        retry_run(run=row, actor=actor, at=at)

    @display(
        description="state",
        ordering="state",
        label={"pending": "info", "delivering": "info", "done": "success", "failed": "danger"},
    )
    def state_label(self, run: ExportRun) -> tuple[str, str]:
        """Return the state, coloured."""
        return str(run.state), value_text(run.state)

    @admin.display(description="next try (UTC)", ordering="next_at")
    def next_try(self, run: ExportRun) -> datetime | None:
        """Return when it is tried next; None for one that ended."""
        return run.next_at if run.state in OPEN_STATES else None

    @admin.display(description="files made (UTC)")
    def made_at(self, run: ExportRun) -> datetime | None:
        """Return the time of the snapshot."""
        return run.staged_at

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Return the page of one run, with its files."""
        run = self.get_object(request, object_id)
        context = {} if run is None else self._files_context(run)
        answer: HttpResponse = super().change_view(
            request, object_id, form_url, {**context, **(extra_context or {})}
        )
        return answer

    def _files_context(self, run: ExportRun) -> dict[str, Any]:
        is_kept = run.purged_at is None
        return {
            "run": run,
            "note": english(run.note),
            "remedy": english(run.remedy),
            "is_due": run.finished_at is None and run.next_at <= timezone.now(),
            "files": [
                {
                    "file": file,
                    "link": reverse("admin:billing_exportrun_file", args=[file.pk])
                    if is_kept
                    else "",
                }
                for file in run.files.order_by("position")
            ],
        }

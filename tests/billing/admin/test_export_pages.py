"""Admin pages of scheduled exports: a schedule is made by a form, a run is read and tried again."""

import pytest
from django.test import Client

from billing.models import ExportChunk, ExportFile, ExportRun, ExportSchedule
from tests.support.builders import AT
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
SCHEDULES = "/admin/billing/exportschedule/"
RUNS = "/admin/billing/exportrun/"


@shared_rows
def cast() -> Cast:
    return make_cast()


def browser(cast: Cast, name: str) -> Client:
    person = getattr(cast, name)
    person.is_staff = True
    person.save(update_fields=["is_staff"])
    client = Client()
    client.force_login(person)
    return client


def failed_run(cast: Cast) -> ExportRun:
    schedule = ExportSchedule.objects.create(
        slug="erp",
        organization=cast.acme,
        contents=["lines"],
        target="webhook",
        address="https://hooks.example.com/T0123456789abcdefghijklmnop",
        secret_reference="env:EXPORT_SECRET_ERP",
        created_at=AT,
    )
    run = ExportRun.objects.create(
        schedule=schedule,
        month="2026-10",
        state="failed",
        note="It answered 500.",
        reason="status_500",
        next_at=AT,
        requested_by="billing.tick",
        created_at=AT,
        staged_at=AT,
        finished_at=AT,
    )
    file = ExportFile.objects.create(
        run=run,
        position=1,
        content="lines",
        name="lines-2026-10.csv",
        content_type="text/csv; charset=utf-8",
        size=6,
        sha256="0" * 64,
    )
    for position, content in enumerate((b"abc", b"def"), 1):
        ExportChunk.objects.create(file=file, position=position, content=content)
    return run


def test_finance_makes_a_schedule_and_exports_last_month(cast: Cast) -> None:
    dora = browser(cast, "dora")
    form = {
        "slug": "erp",
        "contents": ["month", "focus-1.2-CostAndUsage-csv"],
        "target": "mail",
        "address": "erp@example.test",
        "day": "2",
        "hour": "6",
        "waits_for_close": "on",
    }

    added = dora.post(f"{SCHEDULES}add/", form)
    made = ExportSchedule.objects.get()
    pressed = {"action": "export_now", "_selected_action": [str(made.pk)]}
    done = dora.post(SCHEDULES, pressed, follow=True).content.decode()

    assert added.status_code == 302
    assert made.contents == ["month", "focus-1.2-CostAndUsage-csv"]
    assert "is exported within a minute" in done
    assert ExportRun.objects.get().requested_by == "dora"


def test_a_failed_run_shows_its_remedy_its_files_and_no_token(cast: Cast) -> None:
    run, ann = failed_run(cast), browser(cast, "ann")
    file = run.files.get()

    page = ann.get(f"{RUNS}{run.pk}/change/").content.decode()
    schedule = ann.get(f"{SCHEDULES}{run.schedule_id}/change/").content.decode()
    content = ann.get(f"{RUNS}files/{file.pk}/")

    assert "What to do: Let the receiver answer with a 2xx status." in page
    assert f"{RUNS}files/{file.pk}/" in page
    assert b"".join(content.streaming_content) == b"abcdef"  # type: ignore[attr-defined]
    assert "Try again" not in page
    for shown in (page, schedule, ann.get(SCHEDULES).content.decode()):
        assert "T0123456789" not in shown


def test_a_failed_run_is_tried_again_by_finance(cast: Cast) -> None:
    run, dora = failed_run(cast), browser(cast, "dora")

    page = dora.get(f"{RUNS}{run.pk}/change/").content.decode()
    dora.post(RUNS, {"action": "try_again", "_selected_action": [str(run.pk)]})

    assert "Try again" in page
    assert ExportRun.objects.get().state == "delivering"


def test_a_deleted_content_leads_back_with_the_remedy(cast: Cast) -> None:
    run, ann = failed_run(cast), browser(cast, "ann")
    ExportRun.objects.update(purged_at=AT)

    answer = ann.get(f"{RUNS}files/{run.files.get().pk}/", follow=True).content.decode()

    assert "The content of this file was deleted. Export the month anew." in answer


def test_a_wrong_form_shows_what_is_wrong_and_makes_nothing(cast: Cast) -> None:
    form = {
        "slug": "erp",
        "organization": str(cast.acme.pk),
        "contents": ["journal"],
        "target": "sftp",
        "address": "sftp://user:hunter2@files.example.com/in",
        "secret_reference": "hunter2",
        "day": "2",
        "hour": "6",
    }

    page = browser(cast, "dora").post(f"{SCHEDULES}add/", form).content.decode()

    assert "The journal is exported of all organizations only." in page
    assert "Use sftp://user@host/folder, without password." in page
    assert "Name the variable that holds the secret" in page
    assert "public key as one line" in page
    assert not ExportSchedule.objects.exists()


def test_a_schedule_is_changed_and_closed_by_finance_alone(cast: Cast) -> None:
    schedule = failed_run(cast).schedule
    page, pressed = (
        f"{SCHEDULES}{schedule.pk}/change/",
        {
            "action": "close_schedules",
            "_selected_action": [str(schedule.pk)],
        },
    )
    form = {"contents": ["lines", "documents"], "day": "5", "hour": "7", "waits_for_close": "on"}

    for name in ("ann", "frank"):
        assert browser(cast, name).post(page, form).status_code == 403
        browser(cast, name).post(SCHEDULES, pressed)
    unchanged = ExportSchedule.objects.get()
    dora = browser(cast, "dora")
    changed = dora.post(page, form)
    dora.post(SCHEDULES, pressed)

    stored = ExportSchedule.objects.get()
    assert (unchanged.day, unchanged.state) == (2, "active")
    assert changed.status_code == 302
    assert (stored.contents, stored.day, stored.hour) == (["lines", "documents"], 5, 7)
    assert stored.state == "closed"

"""Schedules and runs over REST: made once, changed from a version, secrets and tokens hidden."""

from typing import Any

import pytest

from billing.models import ExportChunk, ExportFile, ExportRun, ExportSchedule
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client, problem

pytestmark = pytest.mark.django_db
SCHEDULES = "/api/v1/export-schedules/"
RUNS = "/api/v1/export-runs/"
FILES = "/api/v1/export-files/"
TOKEN = "T0123456789abcdefghijklmnop"
KEY = {"Idempotency-Key": "once"}


@shared_rows
def cast() -> Cast:
    return make_cast()


def body_of(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - Any field.
    return {
        "slug": "erp",
        "organization": None,
        "contents": ["month", "focus-1.4-CostAndUsage-parquet"],
        "target": "webhook",
        "address": f"https://hooks.example.com/{TOKEN}",
        "secret_reference": "env:EXPORT_SECRET_ERP",
        "day": 2,
        "hour": 6,
        **fields,
    }


def create(cast: Cast, **fields: Any) -> Any:  # noqa: ANN401 - An answer.
    client = api_client(cast.dora)
    return client.post(SCHEDULES, body_of(**fields), format="json", headers=KEY)


def run_of(schedule: ExportSchedule, **fields: Any) -> ExportRun:  # noqa: ANN401 - Any field.
    return ExportRun.objects.create(
        schedule=schedule,
        month="2026-10",
        next_at=AT,
        requested_by="billing.tick",
        created_at=AT,
        **fields,
    )


def file_of(run: ExportRun, *chunks: bytes) -> ExportFile:
    file = ExportFile.objects.create(
        run=run,
        position=1,
        content="lines",
        name="lines-2026-10.csv",
        content_type="text/csv; charset=utf-8",
        size=sum(map(len, chunks)),
        sha256="0" * 64,
    )
    for position, content in enumerate(chunks, 1):
        ExportChunk.objects.create(file=file, position=position, content=content)
    return file


def test_a_schedule_is_made_once_for_a_key_and_shows_no_token(cast: Cast) -> None:
    first, again = create(cast), create(cast)

    made = ExportSchedule.objects.get()
    shown = first.json()
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert {name: shown[name] for name in ("id", "slug", "organization", "target", "state")} == {
        "id": str(made.pk),
        "slug": "erp",
        "organization": None,
        "target": "webhook",
        "state": "active",
    }
    assert shown["address"] == "https://hooks.example.com/…"
    assert shown["secret_reference"] == "env:EXPORT_SECRET_ERP"
    assert (shown["day"], shown["hour"], shown["waits_for_close"]) == (2, 6, True)
    assert made.address.endswith(TOKEN)
    assert TOKEN not in str(AuditEntry.objects.values_list("facts", flat=True))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"contents": []}, "contents"),
        ({"contents": ["everything"]}, "contents.0"),
        ({"day": 31}, "day"),
        ({"hour": -1}, "hour"),
        ({"target": "ftp"}, "target"),
        ({"address": "http://inside/x"}, "address"),
        ({"secret_reference": "hunter2"}, "secret_reference"),
        ({"slug": "No Slug"}, "slug"),
        ({"password": "hunter2"}, "password"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_made(
    cast: Cast, fields: dict[str, Any], named: str
) -> None:
    answer = create(cast, **fields)

    fields_named = [one["field"] for one in answer.json()["problems"]]
    assert answer.status_code in {400, 422}
    assert named in fields_named
    assert "hunter2" not in answer.content.decode()
    assert not ExportSchedule.objects.exists()


def test_a_change_is_made_from_the_version_that_was_read(cast: Cast) -> None:
    path, client = f"{SCHEDULES}{create(cast).json()['id']}/", api_client(cast.dora)

    missing = client.patch(path, {"day": 5}, format="json")
    changed = client.patch(path, {"day": 5}, format="json", headers={"If-Match": '"1"'})
    stale = client.patch(path, {"day": 7}, format="json", headers={"If-Match": '"1"'})
    empty = client.patch(path, {"contents": []}, format="json", headers={"If-Match": '"2"'})
    closed = client.post(f"{path}close/", {}, format="json", headers={"If-Match": '"2"'})
    late = client.patch(path, {"day": 8}, format="json", headers={"If-Match": '"3"'})

    assert missing.status_code == 428
    assert (changed.status_code, changed.json()["day"], changed["ETag"]) == (200, 5, '"2"')
    assert stale.status_code == 412
    assert empty.status_code in {400, 422}
    assert (closed.status_code, closed.json()["state"]) == (200, "closed")
    assert problem(late) == (409, "export_schedule_closed")
    assert ExportSchedule.objects.get().day == 5


def test_a_month_is_exported_now_and_its_run_is_listed(cast: Cast) -> None:
    schedule, client = create(cast).json()["id"], api_client(cast.dora)

    asked = client.post(
        f"{SCHEDULES}{schedule}/runs/",
        {"month": "2026-10"},
        format="json",
        headers={"Idempotency-Key": "now"},
    )
    wrong = client.post(
        f"{SCHEDULES}{schedule}/runs/",
        {"month": "2026-13"},
        format="json",
        headers={"Idempotency-Key": "later"},
    )
    listed = client.get(RUNS, {"schedule": schedule, "month": "2026-10", "state": "pending"})

    assert (asked.status_code, asked.json()["month"], asked.json()["number"]) == (201, "2026-10", 1)
    assert wrong.status_code == 422
    assert [one["id"] for one in listed.json()["results"]] == [asked.json()["id"]]
    assert asked.json()["requested_by"] == "dora"


def test_a_run_shows_its_files_and_what_to_do(cast: Cast) -> None:
    create(cast)
    run = run_of(
        ExportSchedule.objects.get(),
        state="failed",
        note="The bucket answered AccessDenied.",
        reason="bucket_refused",
        staged_at=AT,
        finished_at=AT,
    )
    file = file_of(run, b"abc", b"def")

    shown = api_client(cast.ann).get(f"{RUNS}{run.pk}/").json()
    content = api_client(cast.ann).get(f"{FILES}{file.pk}/content/")

    assert shown["remedy"] == "Check that the bucket is there, and that the key may write to it."
    assert shown["files"] == [
        {
            "id": str(file.pk),
            "name": "lines-2026-10.csv",
            "content_type": "text/csv; charset=utf-8",
            "size": 6,
            "sha256": "0" * 64,
            "delivered_at": None,
        }
    ]
    assert content.getvalue() == b"abcdef"
    assert content["Content-Disposition"] == 'attachment; filename="lines-2026-10.csv"'
    assert content["Cache-Control"] == "private, no-store"


def test_a_failed_run_is_tried_again_once(cast: Cast) -> None:
    create(cast)
    run = run_of(ExportSchedule.objects.get(), state="failed", finished_at=AT)
    client = api_client(cast.dora)

    again = client.post(f"{RUNS}{run.pk}/retry/", {}, format="json")
    twice = client.post(f"{RUNS}{run.pk}/retry/", {}, format="json")

    assert (again.status_code, again.json()["state"], again.json()["attempts"]) == (
        200,
        "pending",
        0,
    )
    assert problem(twice) == (409, "export_run_not_failed")


def test_what_was_deleted_is_not_downloaded(cast: Cast) -> None:
    create(cast)
    file = file_of(run_of(ExportSchedule.objects.get(), purged_at=AT))

    answer = api_client(cast.ann).get(f"{FILES}{file.pk}/content/")

    assert problem(answer) == (409, "export_purged")


def test_people_of_organizations_see_no_schedule(cast: Cast) -> None:
    create(cast, organization=str(cast.acme.pk))
    schedule = ExportSchedule.objects.get()
    file = file_of(run_of(schedule), b"abc")

    for person in (cast.alice, cast.bob, cast.mallory):
        client = api_client(person)
        assert client.get(SCHEDULES).json()["results"] == []
        assert client.get(f"{SCHEDULES}{schedule.pk}/").status_code == 404
        assert client.get(f"{FILES}{file.pk}/content/").status_code == 404

"""Schedules: what is refused, what the audit trail has, and where secrets are not."""

from collections.abc import Mapping
from typing import Any

import pytest

from billing.domain.exports.errors import ExportScheduleClosedError, ExportScheduleKnownError
from billing.domain.exports.schedules import CONTENTS
from billing.models import ExportRun, ExportSchedule
from billing.services.exports.schedules import (
    change_schedule,
    close_schedule,
    create_schedule,
    request_run,
)
from tenants.domain.errors import InvalidInputError
from tenants.models import AuditEntry
from tests.support.billing.ledger import TICK
from tests.support.builders import AT, make_organization

pytestmark = pytest.mark.django_db
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0hRq1Wb0l2m0m4p5qkq1b2c3d4e5f6g7h8i9j0k1l2"
SFTP = {"target": "sftp", "address": "sftp://gl@files.example.com/in", "host_key": KEY}
HOOK = "https://hooks.example.com/T0123456789abcdefghijklmnop"


def create(**fields: Any) -> ExportSchedule:  # noqa: ANN401 - Any field.
    given: Mapping[str, Any] = {
        "slug": "erp",
        "organization": None,
        "contents": ["month"],
        "target": "bucket",
        "address": "https://s3.example.com/ledger/months?region=eu-central-1",
        "secret_reference": "env:EXPORT_SECRET_ERP",
        "day": 2,
        "hour": 6,
        "actor": TICK,
        "at": AT,
    }
    return create_schedule(**{**given, **fields})


def test_every_content_can_be_scheduled() -> None:
    made = create(contents=list(CONTENTS))

    assert len(made.contents) == 15
    assert len(set(made.contents)) == 15


@pytest.mark.parametrize(
    ("fields", "problems"),
    [
        ({"contents": []}, ["blank", "not_a_list"]),
        ({"contents": ["month", "month"]}, ["not_a_list"]),
        ({"contents": ["focus-1.2-InvoiceDetail-csv"]}, ["content_unknown"]),
        ({"day": 29}, ["not_a_day"]),
        ({"hour": 24, "day": 0}, ["not_a_day", "not_an_hour"]),
        ({"address": "http://s3.example.com/ledger"}, ["not_a_bucket_url"]),
        ({"address": "https://s3.example.com/"}, ["not_a_bucket_url"]),
        ({"address": "https://s3.example.com/ledger?key=1"}, ["not_a_bucket_url"]),
        ({"address": "https://user:pass@s3.example.com/ledger"}, ["not_a_bucket_url"]),
        ({**SFTP, "address": "sftp://gl:pass@files.example.com/in"}, ["not_an_sftp_url"]),
        ({**SFTP, "address": "sftp://files.example.com/in"}, ["not_an_sftp_url"]),
        ({**SFTP, "host_key": ""}, ["not_a_host_key"]),
        ({"host_key": KEY}, ["not_for_this_target"]),
        ({"secret_reference": "env:SECRET_KEY"}, ["not_a_reference"]),
        ({"secret_reference": "a-secret"}, ["not_a_reference"]),
        ({"target": "mail", "address": "a@b.test"}, ["not_for_mail"]),
        ({"target": "mail", "address": "no", "secret_reference": ""}, ["not_a_mail_address"]),
    ],
)
def test_what_cannot_be_used_is_refused_with_every_problem(
    fields: dict[str, Any], problems: list[str]
) -> None:
    with pytest.raises(InvalidInputError) as refusal:
        create(**fields)

    assert [problem.code for problem in refusal.value.problems] == problems
    assert not ExportSchedule.objects.exists()


def test_the_journal_is_of_all_organizations_only() -> None:
    with pytest.raises(InvalidInputError) as refusal:
        create(organization=make_organization(), contents=["journal"])

    assert [problem.code for problem in refusal.value.problems] == ["journal_of_all"]


def test_the_audit_trail_has_no_token_of_an_address() -> None:
    create(target="webhook", address=HOOK)

    entry = AuditEntry.objects.get(action="billing:export_schedule:create")
    assert entry.facts["address"] == "https://hooks.example.com/…"
    assert "T0123456789" not in str(entry.facts)


def test_names_are_unique_and_a_closed_schedule_exports_nothing() -> None:
    made = create()
    with pytest.raises(ExportScheduleKnownError):
        create()

    close_schedule(schedule=made, actor=TICK, at=AT)

    with pytest.raises(ExportScheduleClosedError):
        request_run(schedule=made, month="2026-10", actor=TICK, at=AT)
    with pytest.raises(ExportScheduleClosedError):
        change_schedule(schedule=made, changes={"day": 3}, actor=TICK, at=AT)
    assert not ExportRun.objects.exists()

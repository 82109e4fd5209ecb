"""Tests of `manage.py issue_token`: a first token without another token."""

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from rest_framework.test import APIClient

from tenants.models import ApiToken, AuditEntry
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    return make_cast()


def run(*arguments: str) -> tuple[str, str]:
    """Return what the command prints and what it shows beside it."""
    out, beside = StringIO(), StringIO()
    call_command("issue_token", *arguments, stdout=out, stderr=beside)
    return out.getvalue(), beside.getvalue()


def test_the_printed_line_is_a_token_that_signs_its_person_in(cast: Cast) -> None:
    out, beside = run("frank")

    text = out.removesuffix("\n")
    answer = APIClient().get("/api/v1/me/", headers={"authorization": f"Bearer {text}"})
    assert answer.status_code == 200
    assert answer.json()["name"] == cast.frank.username
    assert [grant["role"] for grant in answer.json()["grants"]] == ["platform_admin"]
    assert beside.startswith("Token of frank until ")
    assert text not in beside


def test_the_token_has_the_name_the_days_and_the_scopes_it_was_given(cast: Cast) -> None:
    run("frank", "--name", "Backup", "--days", "7", "--scope", "metering:usage:read")

    token = ApiToken.objects.get()
    assert (token.user, token.name, token.scopes) == (cast.frank, "Backup", ["metering:usage:read"])
    assert token.expires_at - token.created_at == timedelta(days=7)


def test_without_days_it_lives_a_month(cast: Cast) -> None:
    run(cast.dora.username)

    token = ApiToken.objects.get()
    assert token.expires_at - token.created_at == timedelta(days=30)


def test_the_trail_names_the_command_and_never_the_secret(cast: Cast) -> None:
    out, _ = run(cast.dora.username)

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_id) == ("tenants:api_token:create", "manage.issue_token")
    assert entry.facts["holder"] == "dora"
    assert out.strip().rsplit("_", 1)[1] not in str(entry.facts)


def test_an_unknown_person_is_reported_how_people_are_made(cast: Cast) -> None:
    assert cast.frank.is_active

    with pytest.raises(CommandError, match=r'There is no person "nobody"\. .*createsuperuser'):
        run("nobody")

    assert not ApiToken.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--days", "0"), "expires_at: Choose a time to come."),
        (("--days", "-3"), "expires_at: Choose a time to come."),
        (("--days", "366"), "expires_at: A token lives at most 365 days."),
        (("--days", "99999999999"), "expires_at: A token lives at most 365 days."),
        (("--scope", "money:print"), 'scopes: "money:print" is not a capability.'),
        (("--name", ""), "name: This field cannot be blank."),
    ],
)
def test_a_wrong_argument_is_reported_by_its_field_and_issues_nothing(
    cast: Cast, arguments: tuple[str, ...], reported: str
) -> None:
    with pytest.raises(CommandError) as caught:
        run(cast.frank.username, *arguments)

    assert reported in str(caught.value)
    assert not ApiToken.objects.exists()
    assert not AuditEntry.objects.exists()


def test_a_deactivated_person_gets_no_token(cast: Cast) -> None:
    cast.frank.is_active = False
    cast.frank.save(update_fields=["is_active"])

    with pytest.raises(CommandError, match=r"frank may not act\.\nActivate it first"):
        run("frank")

    assert not ApiToken.objects.exists()


def test_a_token_is_over_when_its_days_are(cast: Cast) -> None:
    out, _ = run(cast.frank.username, "--days", "1")
    ApiToken.objects.update(
        created_at=timezone.now() - timedelta(days=2), expires_at=timezone.now() - timedelta(days=1)
    )

    answer = APIClient().get("/api/v1/me/", headers={"authorization": f"Bearer {out.strip()}"})

    assert answer.status_code == 401
    assert answer.json()["detail"] == "This API token has expired."

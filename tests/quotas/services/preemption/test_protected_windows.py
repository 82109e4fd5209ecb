"""Protected windows are promised by the platform, for a bounded time."""

from datetime import datetime, timedelta

import pytest

from quotas.domain.errors import PreemptionInputError, ProtectedWindowClosedError
from quotas.models import ProtectedWindow
from quotas.services.preemption.protected_windows import close_window, open_window
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of
from tests.support.quotas.preempting import protect

HOUR = timedelta(hours=1)


def opened(cast: Cast, **fields: object) -> ProtectedWindow:
    given = {
        "organization": cast.acme,
        "valid_from": AT,
        "valid_until": AT + HOUR,
        "reason": "Release.",
        "actor": actor_of(cast.frank),
        "at": AT,
        **fields,
    }
    return open_window(**given)  # type: ignore[arg-type]


def test_a_window_is_kept_with_its_reason_and_an_audit_entry(cast: Cast) -> None:
    window = opened(cast, project=cast.llm)

    window.refresh_from_db()
    assert (window.valid.lower, window.valid.upper) == (AT, AT + HOUR)
    assert (window.project, window.reason, window.created_by) == (cast.llm, "Release.", "frank")
    entry = AuditEntry.objects.get(action="quotas:protected_window:open")
    assert entry.organization_id == cast.acme.pk
    assert entry.facts["project_id"] == str(cast.llm.pk)


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"valid_until": AT}, ["valid_until"]),
        ({"valid_from": AT - 3 * HOUR, "valid_until": AT - HOUR}, ["valid_until"]),
        ({"valid_until": AT + timedelta(days=31, seconds=1)}, ["valid_until"]),
        ({"reason": "  "}, ["reason"]),
        ({"reason": "a\nb"}, ["reason"]),
        ({"reason": "x" * 201}, ["reason"]),
        ({"reason": "", "valid_until": AT}, ["valid_until", "reason"]),
    ],
)
def test_a_window_that_cannot_be_is_refused_whole(
    cast: Cast, fields: dict[str, object], wrong: list[str]
) -> None:
    with pytest.raises(PreemptionInputError) as refusal:
        opened(cast, **fields)

    assert [one.field for one in refusal.value.problems] == wrong
    assert refusal.value.field == wrong[0]
    assert not ProtectedWindow.objects.exists()


def test_another_organizations_project_is_not_protected(cast: Cast) -> None:
    with pytest.raises(PreemptionInputError) as refusal:
        opened(cast, project=cast.virus)

    assert [(one.field, one.message) for one in refusal.value.problems] == [
        ("project", "Name a project of the organization, or leave it out.")
    ]


@pytest.mark.parametrize(
    ("until", "message"),
    [
        (AT - HOUR, "Name a time after valid_from that is still to come."),
        (AT + timedelta(days=32), "Name a time at most 31 days after valid_from."),
    ],
)
def test_an_end_that_cannot_be_says_what_to_do(cast: Cast, until: datetime, message: str) -> None:
    with pytest.raises(PreemptionInputError) as refusal:
        opened(cast, valid_from=AT - 2 * HOUR, valid_until=until)

    assert [one.message for one in refusal.value.problems] == [message]
    assert refusal.value.message == "That cannot be a protected window: valid_until is wrong."


@pytest.mark.parametrize("name", ["alice", "bob", "ann", "dora", "mallory"])
def test_only_the_platform_protects(cast: Cast, name: str) -> None:
    actor = actor_of(getattr(cast, name))
    window = protect(cast.acme)

    with pytest.raises(ForbiddenError):
        opened(cast, actor=actor)
    with pytest.raises(ForbiddenError):
        close_window(window_id=window.pk, actor=actor, at=AT)
    assert ProtectedWindow.objects.get().version == 1


def test_a_window_that_has_begun_ends_now(cast: Cast) -> None:
    window = protect(cast.acme, begin_at=AT - HOUR, end_at=AT + 2 * HOUR)

    close_window(window_id=window.pk, actor=actor_of(cast.frank), at=AT)

    window.refresh_from_db()
    assert (window.valid.lower, window.valid.upper) == (AT - HOUR, AT)
    assert (window.cancelled_at, window.version) == (None, 2)
    with pytest.raises(ProtectedWindowClosedError, match="has ended"):
        close_window(window_id=window.pk, actor=actor_of(cast.frank), at=AT)


@pytest.mark.parametrize("begin_at", [AT, AT + HOUR])
def test_a_window_that_has_not_begun_is_cancelled_and_keeps_its_times(
    cast: Cast, begin_at: datetime
) -> None:
    window = protect(cast.acme, begin_at=begin_at, end_at=AT + 2 * HOUR)

    close_window(window_id=window.pk, actor=actor_of(cast.frank), at=AT)

    window.refresh_from_db()
    assert (window.valid.lower, window.valid.upper) == (begin_at, AT + 2 * HOUR)
    assert (window.cancelled_at, window.version) == (AT, 2)
    facts = AuditEntry.objects.get(action="quotas:protected_window:close").facts
    assert facts["from"] == begin_at.isoformat()
    assert facts["cancelled_at"] == AT.isoformat()
    with pytest.raises(ProtectedWindowClosedError, match="was cancelled before it began"):
        close_window(window_id=window.pk, actor=actor_of(cast.frank), at=AT)


def test_a_window_that_was_changed_meanwhile_is_not_closed(cast: Cast) -> None:
    window = protect(cast.acme)

    with pytest.raises(StaleVersionError):
        close_window(window_id=window.pk, expected_version=2, actor=actor_of(cast.frank), at=AT)
    assert ProtectedWindow.objects.filter(valid__contains=AT).exists()


def test_what_is_not_there_is_not_closed(cast: Cast) -> None:
    with pytest.raises(NotFoundError):
        close_window(window_id=new_id(), actor=actor_of(cast.frank), at=AT)

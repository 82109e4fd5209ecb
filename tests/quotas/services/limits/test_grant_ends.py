"""Grants end early by moving the end of their range, wherever the tree holds without them."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from quotas.domain.errors import (
    QuotaGrantLentError,
    QuotaGrantOverError,
    QuotaHierarchyBrokenError,
    QuotaInputError,
)
from quotas.models import QuotaGrant
from quotas.services.limits.grants import end_grant, end_together
from quotas.services.limits.limits import remove_limit
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError, ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_grant, make_limit

SYSTEM = system_actor("tests")
DAY = timedelta(days=1)
FRIDAY = AT + 4 * DAY


def end(grant: QuotaGrant, **further: object) -> QuotaGrant:
    given: dict[str, Any] = {"grant_id": grant.pk, "actor": SYSTEM, "at": AT}
    return end_grant(**{**given, **further})


def range_of(grant: QuotaGrant) -> tuple[datetime | None, datetime | None, bool]:
    grant.refresh_from_db()
    return grant.valid.lower, grant.valid.upper, grant.valid.isempty


@pytest.mark.parametrize("end_at", [None, AT + DAY])
def test_a_grant_ends_now_or_at_a_time_to_come(cast: Cast, end_at: datetime | None) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 4, AT - DAY, FRIDAY)

    ended = end(grant, end_at=end_at, actor=actor_of(cast.alice))

    assert range_of(grant) == (AT - DAY, end_at or AT, False)
    assert ended.version == 2
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor_label) == ("quotas:grant:end", "alice")
    assert entry.facts["valid_until"] == (end_at or AT).isoformat()


def test_a_grant_without_end_can_end(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 4, AT - DAY)

    end(grant)

    assert range_of(grant) == (AT - DAY, AT, False)


@pytest.mark.parametrize("end_at", [None, FRIDAY])
def test_a_grant_that_has_not_begun_by_then_is_cancelled(
    cast: Cast, end_at: datetime | None
) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 4, FRIDAY, FRIDAY + DAY)

    end(grant, end_at=end_at)

    assert range_of(grant) == (None, None, True)
    assert audit_actions() == ["quotas:grant:cancel"]


def test_a_grant_is_not_ended_in_the_past_or_later_than_it_ends(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 4, AT - DAY, FRIDAY)

    with pytest.raises(QuotaInputError) as refusal:
        end(grant, end_at=AT - timedelta(seconds=1))
    for end_at in (FRIDAY, FRIDAY + DAY):
        with pytest.raises(QuotaGrantOverError):
            end(grant, end_at=end_at)

    assert refusal.value.field == "valid_until"
    assert range_of(grant) == (AT - DAY, FRIDAY, False)
    assert audit_actions() == []


def test_what_has_ended_or_was_cancelled_does_not_end_again(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm)
    over = make_grant(limit, 1, AT - DAY, AT)
    cancelled = end(make_grant(limit, 1, FRIDAY))

    for grant in (over, cancelled):
        with pytest.raises(QuotaGrantOverError):
            end(grant)
    remove_limit(limit_id=limit.pk, actor=SYSTEM, at=AT)
    with pytest.raises(QuotaGrantOverError) as refusal:
        end(over)
    with pytest.raises(QuotaGrantOverError):
        end_together(grant_ids=[over.pk, cancelled.pk], actor=SYSTEM, at=AT)

    assert refusal.value.message == "The grant has ended, and its limit was removed."


def test_a_grant_that_lent_units_away_does_not_end_over_what_they_became(cast: Cast) -> None:
    above = make_limit(cast.acme, units=8)
    lender = make_limit(cast.acme, cast.vision, units=4)
    borrower = make_limit(cast.acme, cast.llm, units=4)
    minus, plus = make_grant(lender, -2, AT, FRIDAY), make_grant(borrower, 2, AT, FRIDAY)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        end(minus)
    ended = end_together(grant_ids=[plus.pk, minus.pk], end_at=AT + DAY, actor=SYSTEM, at=AT)

    assert [p.code for p in refusal.value.problems] == ["projects_exceed_organization"]
    assert [grant.pk for grant in ended] == [plus.pk, minus.pk]
    assert range_of(minus)[1] == range_of(plus)[1] == AT + DAY
    assert above.limit_units == 8


def test_a_grant_does_not_end_under_what_its_children_have_of_it(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme, units=4), 4, AT, FRIDAY)
    make_grant(make_limit(cast.acme, cast.llm, units=4), 2, AT + DAY, AT + 2 * DAY)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        end(grant, end_at=AT + DAY)
    end(grant, end_at=AT + 2 * DAY)

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("valid_until", "project_exceeds_organization")
    ]
    assert range_of(grant)[1] == AT + 2 * DAY


def test_half_a_loan_does_not_end_alone(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 2, AT, FRIDAY, reason="loan")

    with pytest.raises(QuotaGrantLentError):
        end(grant)

    assert range_of(grant) == (AT, FRIDAY, False)


def test_one_of_two_grants_that_are_alike_ends(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm)
    first, second = make_grant(limit, 2, AT, FRIDAY), make_grant(limit, 2, AT, FRIDAY)

    end(first, end_at=AT + DAY)

    assert (range_of(first)[1], range_of(second)[1]) == (AT + DAY, FRIDAY)


@pytest.mark.parametrize(
    ("actor", "version", "code"),
    [
        ("bob", 1, "forbidden"),
        ("dora", 1, "forbidden"),
        ("mallory", 1, "forbidden"),
        ("alice", 2, "stale_version"),
    ],
)
def test_an_end_that_is_refused_leaves_the_grant(
    cast: Cast, actor: str, version: int, code: str
) -> None:
    grant = make_grant(make_limit(cast.acme, cast.llm), 2, AT, FRIDAY)

    with pytest.raises(DomainError) as refusal:
        end(grant, expected_version=version, actor=actor_of(getattr(cast, actor)))

    assert refusal.value.code == code
    assert range_of(grant) == (AT, FRIDAY, False)
    assert audit_actions() == []


def test_the_grant_on_an_organizations_own_limit_is_the_platforms_to_end(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme), 2, AT - DAY, FRIDAY)

    with pytest.raises(ForbiddenError):
        end(grant, actor=actor_of(cast.alice))

    assert end(grant, actor=actor_of(cast.frank)).valid.upper == AT


def test_a_grant_that_is_not_there_cannot_end(cast: Cast) -> None:
    grant = make_grant(make_limit(cast.acme), 2, AT - DAY, FRIDAY)

    with pytest.raises(NotFoundError):
        end_grant(grant_id=new_id(), actor=SYSTEM, at=AT)
    for grant_ids in ([grant.pk, new_id()], [new_id()]):
        with pytest.raises(NotFoundError):
            end_together(grant_ids=grant_ids, actor=SYSTEM, at=AT)

    assert range_of(grant) == (AT - DAY, FRIDAY, False)

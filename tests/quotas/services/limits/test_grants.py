"""Grants: made for a range of time, only where the tree holds at each of its instants."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from quotas.domain.errors import (
    QuotaHierarchyBrokenError,
    QuotaInputError,
    QuotaLimitGrantedError,
    QuotaLimitUnlimitedError,
)
from quotas.models import GrantReason, QuotaGrant, QuotaLimit
from quotas.selectors.limits.in_force import limits_in_force
from quotas.services.limits.changes import GrantDraft, grant_together
from quotas.services.limits.grants import grant_units
from quotas.services.limits.limits import remove_limit, set_limit
from tenants.domain.actors import system_actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.refusals import ProjectClosedError
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_grant, make_limit

SYSTEM = system_actor("tests")
DAY = timedelta(days=1)
FRIDAY = AT + 4 * DAY


def give(cast: Cast, limit: QuotaLimit, units: object = 4, **further: object) -> QuotaGrant:
    given: dict[str, Any] = {"limit_id": limit.pk, "units": units, "end_at": FRIDAY}
    who = {"actor": actor_of(cast.alice), "at": AT}
    return grant_units(**{**given, **who, **further})


def units_at(moment: datetime) -> dict[str, int | None]:
    """Return what is in force by scope."""
    return {limit.scope.value: limit.nominal_units for limit in limits_in_force(at=moment)}


def nothing_was_granted() -> bool:
    return not QuotaGrant.objects.exists() and audit_actions() == []


def test_a_grant_until_friday_adds_its_units_until_then(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    grant = give(cast, limit, note="For the demo.")

    grant.refresh_from_db()
    assert (grant.units, grant.reason, grant.note, grant.version) == (
        4,
        "manual",
        "For the demo.",
        1,
    )
    assert (grant.valid.lower, grant.valid.upper, grant.created_at) == (AT, FRIDAY, AT)
    assert (grant.organization, grant.project) == (cast.acme, cast.llm)
    assert [units_at(t)["project"] for t in (AT - DAY, AT, FRIDAY - DAY, FRIDAY)] == [8, 12, 12, 8]
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id) == ("quotas:grant:make", str(grant.pk))
    assert (entry.organization_id, entry.actor_label) == (cast.acme.pk, "alice")
    assert entry.facts == {
        "limit_id": str(limit.pk),
        "units": 4,
        "valid_from": AT.isoformat(),
        "valid_until": FRIDAY.isoformat(),
        "reason": "manual",
        "reference": "",
    }


def test_a_grant_to_come_holds_from_its_begin_and_without_an_end(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    grant = give(cast, limit, -8, begin_at=FRIDAY, end_at=None)

    assert grant.valid.upper is None
    assert [units_at(t)["project"] for t in (AT, FRIDAY, FRIDAY + 900 * DAY)] == [8, 0, 0]


@pytest.mark.parametrize("units", [0, 1_000_001, -1_000_001, 1.5, 8.0, "8", True, None, 10**40])
def test_what_is_no_number_of_units_is_refused_and_nothing_is_granted(
    cast: Cast, units: object
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    with pytest.raises(QuotaInputError) as refusal:
        give(cast, limit, units)

    assert [(p.field, p.code) for p in refusal.value.problems] == [("units", "grant_units_invalid")]
    assert nothing_was_granted()


@pytest.mark.parametrize(
    ("begin_at", "end_at", "field", "code"),
    [
        (AT - timedelta(seconds=1), None, "valid_from", "begin_past"),
        (None, AT, "valid_until", "end_past"),
        (None, AT - DAY, "valid_until", "end_past"),
        (FRIDAY, FRIDAY, "valid_until", "end_before_begin"),
        (FRIDAY, FRIDAY - DAY, "valid_until", "end_before_begin"),
        (AT + 1_831 * DAY, None, "valid_from", "time_too_far"),
        (None, AT + 1_831 * DAY, "valid_until", "time_too_far"),
    ],
)
def test_a_time_that_cannot_be_used_is_refused_by_field(
    cast: Cast, begin_at: datetime | None, end_at: datetime | None, field: str, code: str
) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    with pytest.raises(QuotaInputError) as refusal:
        give(cast, limit, begin_at=begin_at, end_at=end_at)

    assert [(p.field, p.code) for p in refusal.value.problems] == [(field, code)]
    assert nothing_was_granted()


def test_every_wrong_field_is_reported_at_once(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    with pytest.raises(QuotaInputError) as refusal:
        give(cast, limit, 0, begin_at=AT - DAY, end_at=AT - DAY, note="x\x00")

    reported = [problem.field for problem in refusal.value.problems]
    assert reported == ["units", "valid_from", "valid_until", "note"]
    assert nothing_was_granted()


def test_no_grant_takes_a_limit_below_zero_at_any_instant(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    make_grant(limit, 4, AT, FRIDAY)

    give(cast, limit, -8, begin_at=AT, end_at=FRIDAY)
    give(cast, limit, -1, begin_at=FRIDAY - DAY, end_at=FRIDAY + DAY)
    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        give(cast, limit, -8, begin_at=FRIDAY, end_at=FRIDAY + DAY)

    (problem,) = refusal.value.problems
    assert (problem.field, problem.code) == ("units", "units_below_zero")
    assert problem.message == (
        "Project llm would have -1 large with the grants that take units away: 1 too few, "
        "from 2026-11-06 09:00 UTC on."
    )
    assert sorted(QuotaGrant.objects.values_list("units", flat=True)) == [-8, -1, 4]


def test_a_grant_never_breaks_the_hierarchy_while_it_holds(cast: Cast) -> None:
    make_limit(cast.acme, units=10)
    make_limit(cast.acme, cast.vision, units=4)
    limit = make_limit(cast.acme, cast.llm, units=6)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        give(cast, limit, 2, begin_at=FRIDAY, end_at=FRIDAY + DAY)

    (problem,) = refusal.value.problems
    assert (problem.field, problem.code) == ("units", "projects_exceed_organization")
    assert problem.message == (
        "The large limits of the projects would add up to 12, the organization's limit is 10: "
        "2 too many, from 2026-11-06 09:00 UTC on."
    )
    assert nothing_was_granted()


def test_a_grant_over_the_one_above_is_possible_while_that_has_its_own(cast: Cast) -> None:
    above = make_limit(cast.acme, units=8)
    limit = make_limit(cast.acme, cast.llm, units=8)
    make_grant(above, 4, AT, FRIDAY)

    give(cast, limit, 4, end_at=FRIDAY)
    with pytest.raises(QuotaHierarchyBrokenError):
        give(cast, limit, 1, begin_at=FRIDAY, end_at=FRIDAY + DAY)

    assert units_at(AT) == {"organization": 12, "project": 12}


def test_a_limit_is_not_lowered_below_what_its_grants_take(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    make_grant(limit, -6, FRIDAY, FRIDAY + DAY)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        set_limit(
            scope="project",
            organization=cast.acme,
            project=cast.llm,
            size="large",
            limit_units=5,
            actor=SYSTEM,
            at=AT,
        )

    assert [p.code for p in refusal.value.problems] == ["units_below_zero"]
    assert QuotaLimit.objects.get().limit_units == 8


def test_a_loan_is_held_to_the_rules_with_both_halves(cast: Cast) -> None:
    make_limit(cast.acme, units=10)
    lender = make_limit(cast.acme, cast.vision, units=4)
    borrower = make_limit(cast.acme, cast.llm, units=6)
    loan = {"end_at": FRIDAY, "reason": GrantReason.LOAN, "reference": "loan-1"}
    drafts = [GrantDraft(lender.pk, -3, **loan), GrantDraft(borrower.pk, 3, **loan)]  # type: ignore[arg-type]

    grants = grant_together(drafts=drafts, actor=SYSTEM, at=AT)

    assert [(g.limit_id, g.units) for g in grants] == [(lender.pk, -3), (borrower.pk, 3)]
    assert {g.reference for g in grants} == {"loan-1"}
    assert audit_actions() == ["quotas:grant:make", "quotas:grant:make"]


def test_half_a_loan_that_breaks_the_tree_leaves_neither(cast: Cast) -> None:
    make_limit(cast.acme, units=10)
    lender = make_limit(cast.acme, cast.vision, units=4)
    borrower = make_limit(cast.acme, cast.llm, units=6)

    with pytest.raises(QuotaHierarchyBrokenError) as refusal:
        grant_together(
            drafts=[GrantDraft(lender.pk, -5), GrantDraft(borrower.pk, 6)],
            blame="loan",
            actor=SYSTEM,
            at=AT,
        )

    assert [(p.field, p.code) for p in refusal.value.problems] == [
        ("loan", "projects_exceed_organization"),
        ("loan", "project_exceeds_organization"),
        ("loan", "units_below_zero"),
    ]
    assert nothing_was_granted()


def test_grants_of_two_organizations_are_a_mistake(cast: Cast) -> None:
    drafts = [
        GrantDraft(make_limit(cast.acme).pk, 1),
        GrantDraft(make_limit(cast.umbrella).pk, 1),
    ]

    with pytest.raises(ValueError, match="one organization"):
        grant_together(drafts=drafts, actor=SYSTEM, at=AT)

    assert nothing_was_granted()


def test_nothing_is_granted_on_top_of_unlimited(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=None)

    with pytest.raises(QuotaLimitUnlimitedError) as refusal:
        give(cast, limit)

    assert refusal.value.field == "limit"
    assert nothing_was_granted()


@pytest.mark.parametrize("name", ["bob", "carol", "dora", "ann", "mallory"])
def test_who_may_not_write_the_limit_grants_nothing(cast: Cast, name: str) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)

    with pytest.raises(ForbiddenError):
        give(cast, limit, actor=actor_of(getattr(cast, name)))

    assert nothing_was_granted()


def test_an_organizations_own_limit_is_the_platforms_to_grant_on(cast: Cast) -> None:
    limit = make_limit(cast.acme, units=8)

    with pytest.raises(ForbiddenError):
        give(cast, limit)

    assert give(cast, limit, actor=actor_of(cast.frank)).units == 4


def test_a_closed_project_is_granted_nothing(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm, units=8)
    cast.llm.state = "closed"
    cast.llm.save()

    with pytest.raises(ProjectClosedError):
        give(cast, limit)

    assert nothing_was_granted()


@pytest.mark.django_db
def test_a_limit_that_is_not_there_is_granted_nothing() -> None:
    with pytest.raises(NotFoundError):
        grant_units(limit_id=new_id(), units=1, actor=SYSTEM, at=AT)


@pytest.mark.parametrize("begin_at", [AT - DAY, FRIDAY])
def test_a_limit_with_grants_in_force_or_to_come_is_not_removed(
    cast: Cast, begin_at: datetime
) -> None:
    limit = make_limit(cast.acme, cast.llm)
    make_grant(limit, 1, begin_at, FRIDAY + DAY)

    with pytest.raises(QuotaLimitGrantedError) as refusal:
        remove_limit(limit_id=limit.pk, actor=SYSTEM, at=AT)

    assert refusal.value.advice.startswith("End the grants of the limit first")
    assert QuotaLimit.objects.exists()


def test_ended_grants_outlive_their_limit(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm)
    ended = make_grant(limit, 1, AT - DAY, AT)

    remove_limit(limit_id=limit.pk, actor=SYSTEM, at=AT)

    ended.refresh_from_db()
    assert (ended.limit_id, ended.organization, ended.project) == (None, cast.acme, cast.llm)
    assert str(ended) == "+1 on a limit that was removed"


def test_the_database_names_the_holder_of_a_grant_whatever_is_said(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm)

    grant = make_grant(limit, 1, organization=cast.umbrella, project=None)

    grant.refresh_from_db()
    assert (grant.organization, grant.project) == (cast.acme, cast.llm)


@pytest.mark.parametrize(
    "change",
    [
        {"units": 5},
        {"note": "Other."},
        {"reason": "loan"},
        {"created_at": AT - DAY},
    ],
)
def test_a_grant_is_neither_edited_nor_deleted(cast: Cast, change: dict[str, Any]) -> None:
    grant = make_grant(make_limit(cast.acme), 1)

    with pytest.raises(IntegrityError, match="a grant is ended, and kept"), transaction.atomic():
        QuotaGrant.objects.update(**change)
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        grant.delete()

    grant.refresh_from_db()
    assert (grant.units, grant.note, grant.reason, grant.created_at) == (1, "", "manual", AT)

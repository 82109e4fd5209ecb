"""A tenant is suspended and resumed, each source for itself, and what was stays reported."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from quotas.domain.errors import QuotaInputError, QuotaScopeError
from quotas.models import QuotaSuspension
from quotas.selectors.limits.in_force import limits_in_force
from quotas.services.limits.suspensions import resume_suspension, resume_tenant, suspend_tenant
from tenants.domain.actors import system_actor
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identifiers import new_id
from tenants.domain.refusals import StaleVersionError
from tenants.models import AuditEntry
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_limit

BILLING = system_actor("billing.budgets")
LATER = AT + timedelta(hours=2)


def suspend(cast: Cast, **further: object) -> QuotaSuspension:
    given: dict[str, Any] = {
        "organization": cast.acme,
        "reason": "The invoice of October is not paid.",
        "actor": actor_of(cast.frank),
        "at": AT,
    }
    return suspend_tenant(**{**given, **further})


def suspended(at: object = AT) -> dict[str, bool]:
    """Return whose limits are suspended at a time, by slug of the project or organization."""
    return {
        str(limit.project_id or limit.organization_id): limit.is_suspended
        for limit in limits_in_force(at=at)  # type: ignore[arg-type]
    }


def test_a_suspended_organization_starts_nothing_in_any_project(cast: Cast) -> None:
    for limit in ((cast.acme,), (cast.acme, cast.llm), (cast.umbrella,)):
        make_limit(*limit)

    suspension = suspend(cast)

    suspension.refresh_from_db()
    assert (suspension.begin_at, suspension.end_at, suspension.version) == (AT, None, 1)
    assert suspended() == {
        str(cast.acme.pk): True,
        str(cast.llm.pk): True,
        str(cast.umbrella.pk): False,
    }
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id) == ("quotas:suspension:suspend", str(suspension.pk))
    assert (entry.organization_id, entry.actor_label) == (cast.acme.pk, "frank")
    assert entry.facts == {
        "project": None,
        "reason": "The invoice of October is not paid.",
        "source": "",
    }


def test_a_suspended_project_leaves_the_others(cast: Cast) -> None:
    for limit in ((cast.acme,), (cast.acme, cast.llm), (cast.acme, cast.vision)):
        make_limit(*limit)

    suspend(cast, project=cast.llm)

    assert suspended() == {
        str(cast.acme.pk): False,
        str(cast.llm.pk): True,
        str(cast.vision.pk): False,
    }


def test_suspending_again_changes_nothing(cast: Cast) -> None:
    first = suspend(cast)

    again = suspend(cast, reason="Another reason.", at=LATER)

    assert again == first
    assert (again.reason, again.begin_at) == ("The invoice of October is not paid.", AT)
    assert audit_actions() == ["quotas:suspension:suspend"]


def test_a_resumed_tenant_starts_again_and_the_past_stays_reported(cast: Cast) -> None:
    make_limit(cast.acme)
    suspension = suspend(cast)

    resumed = resume_tenant(organization=cast.acme, actor=actor_of(cast.dora), at=LATER)

    assert resumed == suspension
    suspension.refresh_from_db()
    assert (suspension.end_at, suspension.version) == (LATER, 2)
    moments = (AT - timedelta(seconds=1), AT, LATER - timedelta(seconds=1), LATER)
    reported = [suspended(at)[str(cast.acme.pk)] for at in moments]
    assert reported == [False, True, True, False]
    assert audit_actions() == ["quotas:suspension:suspend", "quotas:suspension:resume"]


def test_resuming_one_source_leaves_another_in_force(cast: Cast) -> None:
    make_limit(cast.acme)
    suspend(cast)
    suspend(cast, source="budget", actor=BILLING)
    suspend(cast, source="arrears", actor=BILLING)

    for source, is_suspended in (("budget", True), ("", True), ("arrears", False)):
        resume_tenant(organization=cast.acme, source=source, actor=BILLING, at=LATER)

        assert suspended(LATER)[str(cast.acme.pk)] is is_suspended


def test_resuming_what_nobody_suspended_does_nothing(cast: Cast) -> None:
    suspend(cast, project=cast.llm)

    assert resume_tenant(organization=cast.acme, actor=BILLING, at=LATER) is None
    assert (
        resume_tenant(
            organization=cast.acme, project=cast.llm, source="budget", actor=BILLING, at=LATER
        )
        is None
    )
    assert QuotaSuspension.objects.get().end_at is None


def test_a_tenant_can_be_suspended_once_more(cast: Cast) -> None:
    make_limit(cast.acme)
    suspend(cast)
    resume_tenant(organization=cast.acme, actor=BILLING, at=LATER)

    again = suspend(cast, at=LATER)

    assert QuotaSuspension.objects.count() == 2
    assert (again.begin_at, suspended(LATER)[str(cast.acme.pk)]) == (LATER, True)


def test_one_suspension_is_resumed_by_its_id_at_its_version(cast: Cast) -> None:
    suspension = suspend(cast)
    known: dict[str, Any] = {"suspension_id": suspension.pk, "actor": BILLING}

    with pytest.raises(StaleVersionError) as refusal:
        resume_suspension(**known, expected_version=2, at=LATER)
    resumed = resume_suspension(**known, expected_version=1, at=LATER)
    again = resume_suspension(**known, at=LATER + timedelta(hours=1))

    assert refusal.value.facts == {"version": 1, "expected_version": 2}
    assert (resumed.end_at, again.end_at, again.version) == (LATER, LATER, 2)
    assert audit_actions() == ["quotas:suspension:suspend", "quotas:suspension:resume"]


@pytest.mark.django_db
def test_a_suspension_that_is_not_there_cannot_be_resumed() -> None:
    with pytest.raises(NotFoundError):
        resume_suspension(suspension_id=new_id(), actor=BILLING, at=AT)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("", "justification_missing"),
        (" \n", "justification_missing"),
        ("x" * 4_001, "text_too_long"),
        ("x\x00", "text_has_nul"),
    ],
)
def test_a_suspension_says_why(cast: Cast, reason: str, code: str) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        suspend(cast, reason=reason)

    assert [(p.field, p.code) for p in refusal.value.problems] == [("reason", code)]
    assert not QuotaSuspension.objects.exists()


def test_a_project_of_another_organization_is_not_suspended(cast: Cast) -> None:
    with pytest.raises(QuotaScopeError) as refusal:
        suspend(cast, project=cast.virus)

    assert refusal.value.field == "project"
    assert not QuotaSuspension.objects.exists()


def test_a_source_that_is_no_word_is_a_mistake(cast: Cast) -> None:
    with pytest.raises(ValueError, match="short word"):
        suspend(cast, source="The Budget")


@pytest.mark.parametrize("name", ["alice", "bob", "carol", "ann", "mallory"])
def test_who_may_not_suspend_is_refused_and_nothing_changes(cast: Cast, name: str) -> None:
    other = suspend(cast, project=cast.llm)
    actor = actor_of(getattr(cast, name))

    with pytest.raises(ForbiddenError) as refusal:
        suspend(cast, actor=actor)
    with pytest.raises(ForbiddenError):
        resume_tenant(organization=cast.acme, project=cast.llm, actor=actor, at=AT)
    with pytest.raises(ForbiddenError):
        resume_suspension(suspension_id=other.pk, actor=actor, at=AT)

    assert refusal.value.facts == {"capability": "quotas:suspension:write"}
    assert QuotaSuspension.objects.get().end_at is None


@pytest.mark.parametrize("name", ["dora", "frank"])
def test_the_platform_and_finance_suspend(cast: Cast, name: str) -> None:
    assert suspend(cast, actor=actor_of(getattr(cast, name))).source == ""


def test_a_suspension_is_neither_edited_nor_deleted(cast: Cast) -> None:
    suspension = suspend(cast)

    with pytest.raises(IntegrityError, match="is ended, and kept"), transaction.atomic():
        QuotaSuspension.objects.update(reason="Never mind.")
    with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        suspension.delete()
    resume_tenant(organization=cast.acme, actor=BILLING, at=LATER)
    with pytest.raises(IntegrityError, match="is ended, and kept"), transaction.atomic():
        QuotaSuspension.objects.update(end_at=None)

    suspension.refresh_from_db()
    assert (suspension.reason, suspension.end_at) == (
        "The invoice of October is not paid.",
        LATER,
    )

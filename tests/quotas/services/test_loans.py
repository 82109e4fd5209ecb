"""Loans between projects: proposed, decided, recalled and ended, always both halves or none."""

from datetime import timedelta

import pytest

from quotas.domain.errors import (
    QuotaInputError,
    QuotaLoanDecidedError,
    QuotaLoanOutdatedError,
)
from quotas.models import AdmissionRefusal, LoanMode, QuotaGrant, QuotaLimit, QuotaLoan
from quotas.services.lending.loans import approve_loan, decline_loan, end_loan, recall_loan
from quotas.services.lending.proposals import LendingDone, set_loan_policy
from tenants.domain.errors import ForbiddenError, NotFoundError
from tenants.domain.identity.roles import Role
from tenants.models import Notification, NotificationDelivery, NotificationEndpoint
from tests.support.builders import AT, grant, make_organization, make_user
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, audit_actions, make_limit
from tests.support.quotas.fair_use import DAY, HOUR, refuse, reserve, suspend
from tests.support.quotas.lending_world import (
    TERMS,
    TICK,
    LendingWorld,
    agree,
    loan,
    loan_grants,
    make_lending_world,
)
from tests.support.shared_rows import shared_rows


@shared_rows
def world(cast: Cast) -> LendingWorld:
    return make_lending_world(cast)


def approve(world: LendingWorld) -> QuotaLoan:
    return approve_loan(loan_id=loan().pk, terms=TERMS, actor=actor_of(world.cast.alice), at=AT)


def test_what_one_holds_idle_is_proposed_to_one_that_waits(world: LendingWorld) -> None:
    assert world.refresh() == LendingDone(proposed=1, approved=0, lapsed=0)

    made = loan()
    assert (made.lender, made.borrower, made.units) == (world.cast.vision, world.cast.llm, 3)
    assert (made.lender_idle_units, made.borrower_missing_units) == (9, 3)
    assert (made.state, made.end_at) == ("proposed", AT + 7 * DAY)
    assert loan_grants() == []
    assert world.in_force() == {"acme": 16, "llm": 4, "vision": 12}
    assert audit_actions() == ["quotas:loan:propose"]


def test_proposing_twice_is_once(world: LendingWorld) -> None:
    world.refresh()

    assert world.refresh(AT + timedelta(minutes=5)) == LendingDone(0, 0, 0)
    assert QuotaLoan.objects.count() == 1


def test_an_approved_loan_moves_units_and_leaves_the_sum(world: LendingWorld) -> None:
    world.refresh()

    approved = approve(world)

    assert (approved.state, approved.decided_by, approved.is_automatic) == (
        "active",
        world.cast.alice,
        False,
    )
    assert loan_grants() == [("vision", -3), ("llm", 3)]
    assert world.in_force() == {"acme": 16, "llm": 7, "vision": 9}
    assert world.in_force(approved.end_at) == {"acme": 16, "llm": 4, "vision": 12}
    assert audit_actions()[1:] == ["quotas:grant:make"] * 2 + ["quotas:loan:approve"]


def test_approving_twice_lends_once(world: LendingWorld) -> None:
    world.refresh()
    approve(world)

    assert approve(world).version == 2
    assert len(loan_grants()) == 2


def test_a_recalled_loan_gives_everything_back_at_once(world: LendingWorld) -> None:
    world.refresh()
    approve(world)
    later = AT + HOUR

    recalled = recall_loan(loan_id=loan().pk, actor=actor_of(world.cast.alice), at=later)

    assert (recalled.state, recalled.end_at) == ("recalled", later)
    assert world.in_force(later) == {"acme": 16, "llm": 4, "vision": 12}
    assert world.in_force(later - timedelta(seconds=1))["llm"] == 7
    assert recall_loan(loan_id=loan().pk, actor=TICK, at=later).version == recalled.version


def test_a_declined_loan_is_not_proposed_again_within_a_week(world: LendingWorld) -> None:
    world.refresh()
    decline_loan(loan_id=loan().pk, note="Not now.", actor=actor_of(world.cast.alice), at=AT)

    assert world.refresh(AT + HOUR / 2) == LendingDone(0, 0, 0)
    AdmissionRefusal.objects.update(last_at=AT + 8 * DAY)
    assert world.refresh(AT + 8 * DAY).proposed == 1
    assert loan_grants() == []


def test_a_proposal_that_no_longer_helps_lapses(world: LendingWorld) -> None:
    world.refresh()
    AdmissionRefusal.objects.update(last_at=AT - 3 * HOUR)

    assert world.refresh() == LendingDone(proposed=0, approved=0, lapsed=1)
    assert loan().state == "lapsed"


def test_a_lender_who_uses_it_meanwhile_refuses_the_approval(world: LendingWorld) -> None:
    world.refresh()
    reserve(world.cluster, world.cast.vision, units=9)

    with pytest.raises(QuotaLoanOutdatedError) as refusal:
        approve(world)

    assert refusal.value.facts == {"idle_units": 0, "units": 3}
    assert (loan().state, loan_grants()) == ("proposed", [])
    assert world.in_force() == {"acme": 16, "llm": 4, "vision": 12}


def test_a_limit_that_is_gone_refuses_the_approval(world: LendingWorld) -> None:
    world.refresh()
    QuotaLimit.objects.filter(pk=world.vision.pk).delete()

    with pytest.raises(QuotaLoanOutdatedError):
        approve(world)

    assert loan().state == "proposed"


def test_in_the_agreed_band_nobody_has_to_be_asked(world: LendingWorld) -> None:
    agree(world, LoanMode.AUTOMATIC, max_units=2, max_days=1, keep_free_percent=50)

    assert world.refresh() == LendingDone(proposed=1, approved=1, lapsed=0)

    made = loan()
    assert (made.state, made.units, made.is_automatic, made.decided_by) == (
        "active",
        2,
        True,
        None,
    )
    assert made.end_at == AT + DAY
    assert world.in_force() == {"acme": 16, "llm": 6, "vision": 10}


def test_what_the_tree_refuses_waits_for_a_person(world: LendingWorld) -> None:
    agree(world, LoanMode.AUTOMATIC)
    QuotaLimit.objects.filter(pk=world.whole.pk).update(limit_units=15)
    QuotaLimit.objects.filter(pk=world.llm.pk).update(limit_units=4)

    done = world.refresh()

    assert done.proposed == 1
    assert world.in_force()["acme"] == 15
    assert (loan().state == "active") == (done.approved == 1)


def test_where_loans_are_off_nothing_is_proposed_and_proposals_lapse(world: LendingWorld) -> None:
    world.refresh()
    agree(world, LoanMode.OFF)

    assert world.refresh() == LendingDone(proposed=0, approved=0, lapsed=1)


def test_a_loan_whose_time_is_over_is_closed(world: LendingWorld) -> None:
    world.refresh()
    until = approve(world).end_at

    with pytest.raises(ValueError, match="recalled, not ended"):
        end_loan(loan_id=loan().pk, actor=TICK, at=until - HOUR)
    end_loan(loan_id=loan().pk, actor=TICK, at=until)

    assert (loan().state, loan().end_at) == ("ended", until)
    assert end_loan(loan_id=loan().pk, actor=TICK, at=until).version == loan().version
    with pytest.raises(QuotaLoanDecidedError):
        recall_loan(loan_id=loan().pk, actor=TICK, at=until)


def test_nobody_passes_on_what_is_borrowed_and_the_suspended_borrow_nothing(
    world: LendingWorld,
) -> None:
    world.refresh()
    approve(world)
    QuotaLimit.objects.update(changed_at=AT - 60 * DAY)
    AdmissionRefusal.objects.all().delete()
    refuse(world.cluster, world.cast.vision, units=20)

    assert world.refresh().proposed == 0
    suspend(world.cast.acme, world.cast.vision)
    assert world.refresh().proposed == 0


def test_a_limit_just_changed_is_not_called_idle(world: LendingWorld) -> None:
    QuotaLimit.objects.filter(pk=world.vision.pk).update(changed_at=AT - HOUR)

    assert world.refresh() == LendingDone(0, 0, 0)


def test_what_a_user_was_promised_is_not_lent(world: LendingWorld) -> None:
    make_limit(world.cast.acme, world.cast.vision, world.cast.alice, units=11)

    world.refresh()

    assert loan().units == 1


@pytest.mark.parametrize("name", ["bob", "carol", "mallory", "ann", "dora"])
def test_only_who_may_write_the_limits_decides(world: LendingWorld, name: str) -> None:
    world.refresh()
    actor = actor_of(getattr(world.cast, name))

    for decide in (decline_loan, recall_loan):
        with pytest.raises(ForbiddenError):
            decide(loan_id=loan().pk, actor=actor, at=AT)
    with pytest.raises(ForbiddenError):
        approve_loan(loan_id=loan().pk, terms=TERMS, actor=actor, at=AT)

    assert (loan().state, QuotaGrant.objects.count()) == ("proposed", 0)


def test_a_loan_that_is_not_there_is_not_found(world: LendingWorld) -> None:
    with pytest.raises(NotFoundError):
        decline_loan(loan_id=world.llm.pk, actor=TICK, at=AT)


def test_a_note_that_cannot_be_kept_is_refused(world: LendingWorld) -> None:
    world.refresh()

    with pytest.raises(QuotaInputError):
        decline_loan(loan_id=loan().pk, note="\x00", actor=TICK, at=AT)

    assert loan().state == "proposed"


def test_leads_of_both_and_administrators_are_reported_once(world: LendingWorld) -> None:
    acme = world.cast.acme
    grant(make_user("vera"), Role.PROJECT_LEAD, project=world.cast.vision)
    NotificationEndpoint.objects.create(
        organization=acme, kind="mail", address="gpu@acme.test", events=["*"], created_at=AT
    )
    world.refresh()
    approve(world)

    rows = NotificationDelivery.objects.order_by("notification__occurred_at", "pk")
    reported = rows.values_list("notification__event", "address")
    assert sorted(reported) == [
        ("quotas:loan:active", "alice@example.test"),
        ("quotas:loan:active", "bob@example.test"),
        ("quotas:loan:active", "gpu@acme.test"),
        ("quotas:loan:active", "vera@example.test"),
        ("quotas:loan:proposed", "alice@example.test"),
        ("quotas:loan:proposed", "bob@example.test"),
        ("quotas:loan:proposed", "gpu@acme.test"),
        ("quotas:loan:proposed", "vera@example.test"),
    ]
    assert Notification.objects.count() == 2


def test_a_policy_is_set_once_and_changed_with_an_entry(cast: Cast) -> None:
    alice = actor_of(cast.alice)
    terms = {"max_units": 4, "max_days": 3, "keep_free_percent": 10}

    made = set_loan_policy(organization=cast.acme, mode="automatic", **terms, actor=alice, at=AT)
    same = set_loan_policy(organization=cast.acme, mode="automatic", **terms, actor=alice, at=AT)
    changed = set_loan_policy(organization=cast.acme, mode="off", **terms, actor=alice, at=AT)

    assert (made.version, same.version, changed.version) == (1, 1, 2)
    assert audit_actions() == ["quotas:loan_policy:set"] * 2


def test_a_policy_that_can_never_hold_is_refused_with_every_problem(cast: Cast) -> None:
    with pytest.raises(QuotaInputError) as refusal:
        set_loan_policy(
            organization=cast.acme,
            mode="maybe",
            max_units=0,
            max_days=93,
            keep_free_percent=101,
            actor=actor_of(cast.alice),
            at=AT,
        )

    assert [problem.field for problem in refusal.value.problems] == [
        "mode",
        "max_units",
        "max_days",
        "keep_free_percent",
    ]
    assert audit_actions() == []


def test_another_organizations_policy_is_not_ones_own_to_set(cast: Cast) -> None:
    with pytest.raises(ForbiddenError):
        set_loan_policy(
            organization=make_organization("other"),
            mode="off",
            max_units=1,
            max_days=1,
            keep_free_percent=0,
            actor=actor_of(cast.alice),
            at=AT,
        )

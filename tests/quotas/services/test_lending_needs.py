"""Nobody is drained by loans: what counts as a need, and how much one project borrows."""

from datetime import datetime, timedelta

import pytest

from quotas.domain.errors import QuotaLoanOutdatedError
from quotas.models import AdmissionRefusal, LoanMode, LoanPolicy, QuotaLimit, QuotaRequest
from quotas.selectors.lending import lending_organization_ids
from quotas.services.lending.loans import approve_loan
from quotas.services.lending.proposals import LendingDone
from tenants.models import Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import actor_of, make_limit
from tests.support.quotas.fair_use import DAY, HOUR, refuse, reserve
from tests.support.quotas.lending_world import (
    TERMS,
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


def ask(
    world: LendingWorld,
    units: int,
    *,
    begin_at: datetime | None = None,
    end_at: datetime | None = None,
    cluster: Cluster | None = None,
) -> QuotaRequest:
    """Let LLM ask for so many in all instead of having been refused."""
    AdmissionRefusal.objects.all().delete()
    return QuotaRequest.objects.create(
        organization=world.cast.acme,
        project=world.cast.llm,
        size="large",
        cluster=cluster,
        requested_units=units,
        begin_at=begin_at,
        end_at=end_at,
        justification="More.",
        state="submitted",
        requested_by=world.cast.bob,
        created_at=AT,
    )


def test_what_is_asked_for_months_ahead_is_not_waited_for_now(world: LendingWorld) -> None:
    ask(world, 7, begin_at=AT + 90 * DAY, end_at=AT + 100 * DAY)

    assert world.refresh() == LendingDone(0, 0, 0)
    assert world.refresh(AT + 90 * DAY).proposed == 1
    assert loan().units == 3


def test_what_was_asked_for_a_time_that_is_over_is_not_waited_for(world: LendingWorld) -> None:
    ask(world, 7, begin_at=AT - 2 * DAY, end_at=AT)

    assert world.refresh() == LendingDone(0, 0, 0)


def test_of_several_requests_for_the_same_the_largest_counts(world: LendingWorld) -> None:
    ask(world, 9)
    ask(world, 6)

    world.refresh()

    assert loan().units == 5


def test_a_person_is_asked_about_a_request_and_no_policy_approves_it(world: LendingWorld) -> None:
    ask(world, 7)
    assert world.refresh().proposed == 1

    agree(world, LoanMode.AUTOMATIC)

    assert world.refresh() == LendingDone(proposed=0, approved=0, lapsed=1)
    assert loan_grants() == []
    assert world.in_force() == {"acme": 16, "llm": 4, "vision": 12}


def test_who_was_let_in_since_is_lent_nothing(world: LendingWorld) -> None:
    agree(world, LoanMode.AUTOMATIC)
    job = AdmissionRefusal.objects.get().workload
    reserve(world.cluster, world.cast.llm, controller=job, admitted_at=AT - HOUR / 2)

    assert lending_organization_ids(at=AT) == []
    assert world.refresh() == LendingDone(0, 0, 0)
    assert loan_grants() == []


@pytest.mark.parametrize("code", ["suspended", "allowance_used"])
def test_whom_more_units_would_not_help_is_lent_nothing(world: LendingWorld, code: str) -> None:
    agree(world, LoanMode.AUTOMATIC)
    AdmissionRefusal.objects.update(code=code)

    assert world.refresh() == LendingDone(0, 0, 0)
    assert loan_grants() == []


def test_every_round_together_lends_no_more_than_was_agreed(world: LendingWorld) -> None:
    agree(world, LoanMode.AUTOMATIC, max_units=2, keep_free_percent=0)
    now = AT
    for number in range(6):
        refuse(world.cluster, world.cast.llm, units=12, last_at=now, workload=f"Job/{number}")
        world.refresh(now)
        now += HOUR

    assert loan_grants() == [("vision", -2), ("llm", 2)]
    assert world.in_force(now) == {"acme": 16, "llm": 6, "vision": 10}


def test_what_is_left_of_the_band_is_lent_later(world: LendingWorld) -> None:
    agree(world, LoanMode.AUTOMATIC, max_units=5)
    world.refresh()
    refuse(world.cluster, world.cast.llm, units=12, last_at=AT + HOUR, workload="Job/more")

    world.refresh(AT + HOUR)

    assert loan_grants() == [("vision", -3), ("vision", -2), ("llm", 2), ("llm", 3)]


def test_a_band_that_was_narrowed_refuses_the_approval(world: LendingWorld) -> None:
    world.refresh()
    agree(world, LoanMode.PROPOSE, max_units=2)

    with pytest.raises(QuotaLoanOutdatedError, match="may borrow 2 more, not 3") as refusal:
        approve_loan(loan_id=loan().pk, terms=TERMS, actor=actor_of(world.cast.alice), at=AT)

    assert refusal.value.facts == {"may_borrow_units": 2, "units": 3}
    assert (loan().state, loan_grants()) == ("proposed", [])


def test_each_place_has_its_own_band(world: LendingWorld) -> None:
    agree(world, LoanMode.AUTOMATIC, max_units=3)
    other = make_cluster("ampere", admission_mode="enforce", is_watched=True)
    for project, units in ((None, 12), (world.cast.llm, 0), (world.cast.vision, 12)):
        make_limit(world.cast.acme, project, units=units, cluster=other)
    QuotaLimit.objects.update(changed_at=AT - timedelta(days=60))
    refuse(other, world.cast.llm, units=3)

    done = world.refresh()

    assert done.proposed == 2
    assert LoanPolicy.objects.get().max_units == 3

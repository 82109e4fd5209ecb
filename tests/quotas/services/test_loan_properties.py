"""Whatever is lent, recalled and waited for: the organization's sum and its tree of limits hold."""

from contextlib import suppress
from datetime import datetime, timedelta

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metering.domain.catalogue.units import GPUSize
from quotas.models import AdmissionRefusal, LoanMode, QuotaLimit, QuotaLoan
from quotas.selectors.limits.limits import limit_tree
from quotas.services.lending.loans import approve_loan, decline_loan, recall_loan
from quotas.services.limits.changes import refuse_violations
from quotas.tasks import share_fairly
from tenants.domain.errors import DomainError
from tests.support.builders import AT
from tests.support.cast import Cast
from tests.support.quotas.fair_use import HOUR, refuse, reserve
from tests.support.quotas.lending_world import TERMS, TICK, LendingWorld, agree, make_lending_world
from tests.support.shared_rows import shared_rows

moves = st.lists(
    st.tuples(
        st.sampled_from(("wait", "hold", "tick", "approve", "decline", "recall")),
        st.sampled_from(("llm", "vision")),
        st.integers(min_value=1, max_value=6),
        st.integers(min_value=0, max_value=40),
    ),
    max_size=8,
)


@shared_rows
def world(cast: Cast) -> LendingWorld:
    made = make_lending_world(cast)
    agree(made, LoanMode.PROPOSE, max_units=5, max_days=2, keep_free_percent=10)
    return made


def play(world: LendingWorld, move: str, who: str, units: int, now: datetime) -> None:
    """Do one thing at a time; a refusal changes nothing."""
    project = getattr(world.cast, who)
    loans = [loan.pk for loan in QuotaLoan.objects.order_by("pk")]
    if move == "wait":
        AdmissionRefusal.objects.update(last_at=now)
        refuse(world.cluster, project, units=units, last_at=now)
    elif move == "hold":
        reserve(world.cluster, project, units=units, admitted_at=now, held_at=now)
    elif move == "tick":
        share_fairly(now, TICK)
    for loan_id in loans:
        with suppress(DomainError), transaction.atomic():
            if move == "approve":
                approve_loan(loan_id=loan_id, terms=TERMS, actor=TICK, at=now)
            elif move == "decline":
                decline_loan(loan_id=loan_id, actor=TICK, at=now)
            elif move == "recall":
                recall_loan(loan_id=loan_id, actor=TICK, at=now)


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(played=moves)
def test_loans_conserve_units_at_every_instant_and_never_break_the_tree(
    world: LendingWorld, played: list[tuple[str, str, int, int]]
) -> None:
    with transaction.atomic():
        now = AT
        share_fairly(now, TICK)
        for move, who, units, hours in played:
            now += timedelta(hours=hours)
            play(world, move, who, units, now)
            changed_at = {AT, now, *(now + day * 24 * HOUR for day in range(4))}
            for instant in sorted(changed_at):
                found = world.in_force(instant)
                assert found["acme"] == 16
                assert (found["llm"] or 0) + (found["vision"] or 0) == 16
            tree = limit_tree(organization_id=world.cast.acme.pk, sizes={GPUSize.LARGE}, at=now)
            refuse_violations({}, tree.values(), blame="units", at=now)
        assert QuotaLimit.objects.count() == 3
        transaction.set_rollback(True)

"""Accepted credits that differ from the audit entry of their acceptance: the check names them."""

import psycopg
import pytest

from metering.models import CreditProposal, CreditState, MeteringWindow
from metering.selectors.collection.verification import check_credits
from metering.services.devices.credits import decide_credit
from tenants.domain.verification import Cursor
from tenants.models import Project
from tests.support.billing.ledger import TICK
from tests.support.builders import AT
from tests.support.config.planted import unguarded
from tests.support.metering.derived_rows import make_derived_rows

OTHERWISE = "is not what was accepted by the audit trail."
TAKEN_BACK = "has more or less usage taken back than its records."
PLANTED = {
    "UPDATE metering_creditproposal SET unit_seconds = 360000": OTHERWISE,
    "UPDATE metering_creditproposal SET is_credited_by_hand = true": OTHERWISE,
    "UPDATE metering_creditproposal SET price_group = 'H100/whole'": OTHERWISE,
    "UPDATE metering_creditproposal SET window_start = window_start - interval '1 hour'": OTHERWISE,
    "UPDATE metering_creditproposal SET state = 'dismissed'": (
        "was accepted by the audit trail, and is not."
    ),
}


def differences() -> list[str]:
    """Return what all batches of the check find."""
    cursor: Cursor | None = {}
    found: list[str] = []
    while cursor is not None:
        batch = check_credits(cursor)
        cursor = batch.cursor
        found += batch.differences
    return found


@pytest.mark.usefixtures("world")
def test_a_credit_that_was_not_accepted_so_is_named(owner: psycopg.Connection) -> None:
    project = Project.objects.get(slug="llm", organization__slug="globex")
    window = MeteringWindow.objects.earliest("start_at")
    credit = make_derived_rows(window, project, owner="carol").credit
    decide_credit(
        proposal_id=credit.pk, state=CreditState.ACCEPTED, reason="XID 79.", actor=TICK, at=AT
    )
    credit.refresh_from_db()
    assert differences() == []

    with unguarded(owner):
        for statement, what in PLANTED.items():
            owner.execute(statement.encode())
            assert differences() == [f"The credit {credit.pk} {what}"]
            credit.save()
    assert differences() == []

    # The service's role itself may write what corrections took back, and a decision; it leaves no
    # entry of either.
    CreditProposal.objects.filter(pk=credit.pk).update(retracted_unit_seconds=60)
    assert differences() == [f"The credit {credit.pk} {TAKEN_BACK}"]
    credit.save()
    following = MeteringWindow.objects.latest("start_at")
    second = make_derived_rows(following, project, owner="dave").credit
    CreditProposal.objects.filter(pk=second.pk).update(state="accepted")
    assert differences() == [f"The credit {second.pk} {OTHERWISE}"]

"""Tests of decisions on requests and loans: the database itself keeps them as they were made."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, models, transaction

from quotas.models import QuotaLoan, QuotaRequest, RequestStep
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    return make_cast()


@shared_rows
def request_of_bob(cast: Cast) -> QuotaRequest:
    """Return an open request."""
    return QuotaRequest.objects.create(
        organization=cast.acme,
        project=cast.llm,
        size="large",
        cluster=make_cluster(),
        requested_units=8,
        justification="A paper.",
        requested_by=cast.bob,
        created_at=AT,
    )


@shared_rows
def loan(cast: Cast) -> QuotaLoan:
    """Return a proposed loan."""
    return QuotaLoan.objects.create(
        organization=cast.acme,
        lender=cast.llm,
        borrower=cast.vision,
        size="large",
        units=1,
        end_at=AT + timedelta(days=7),
        lender_idle_units=4,
        borrower_missing_units=1,
        created_at=AT,
    )


def refuses(row: models.Model, **changes: Any) -> bool:  # noqa: ANN401 - Values of any column.
    """Whether the database refuses that columns of a row change."""
    same = type(row)._default_manager.filter(pk=row.pk)  # noqa: SLF001 - Documented.
    try:
        with transaction.atomic():
            same.update(**changes)
    except IntegrityError as error:
        return "what was decided stays" in str(error)
    return False


@pytest.mark.parametrize("state", ["approved", "rejected", "cancelled", "expired"])
def test_a_decided_request_is_neither_opened_nor_decided_otherwise(
    cast: Cast, request_of_bob: QuotaRequest, state: str
) -> None:
    """The attack: open it, then decide it otherwise; each update alone fits the constraints."""
    signed = {"decided_by": cast.frank, "decided_at": AT}
    assert not refuses(request_of_bob, state=state, **signed)

    assert refuses(request_of_bob, state="submitted", decided_by=None, decided_at=None)
    assert refuses(request_of_bob, decided_by=cast.alice)
    assert refuses(request_of_bob, requested_units=80)
    assert QuotaRequest.objects.get().state == state


@pytest.mark.parametrize("outcome", ["approved", "rejected", "escalated", "closed"])
def test_a_step_that_is_over_is_not_taken_again(
    cast: Cast, request_of_bob: QuotaRequest, outcome: str
) -> None:
    step = RequestStep.objects.create(
        request=request_of_bob, position=1, level="organization", outcome="open"
    )
    assert not refuses(step, outcome=outcome, decided_by=cast.alice, decided_at=AT)

    assert refuses(step, outcome="open", decided_by=None, decided_at=None)
    assert refuses(step, decided_by=cast.frank)


@pytest.mark.parametrize("state", ["declined", "lapsed"])
def test_a_loan_that_came_to_nothing_is_not_proposed_again(loan: QuotaLoan, state: str) -> None:
    assert not refuses(loan, state=state, decided_at=AT)

    assert refuses(loan, state="proposed", decided_at=None)
    assert refuses(loan, state="active", begin_at=AT)


@pytest.mark.parametrize("state", ["ended", "recalled"])
def test_a_loan_is_given_once_and_ends_once(loan: QuotaLoan, state: str) -> None:
    assert not refuses(loan, state="active", begin_at=AT)
    assert refuses(loan, state="proposed", begin_at=None)
    assert not refuses(loan, state=state)

    assert refuses(loan, state="active")


@pytest.mark.parametrize("model", [QuotaRequest, RequestStep, QuotaLoan])
@pytest.mark.usefixtures("loan", "request_of_bob")
def test_decisions_are_not_deleted(model: type[models.Model]) -> None:
    with pytest.raises(DatabaseError, match=r"are kept|permission denied"):
        model._default_manager.all().delete()  # noqa: SLF001 - Documented.

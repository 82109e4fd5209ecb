"""Tests of account changes and invitations: what was requested and decided stays as it was."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, models, transaction

from tenants.models import AccountChange, Invitation
from tests.support.builders import AT, make_invitation
from tests.support.cast import Cast, make_cast
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def change(cast: Cast) -> AccountChange:
    """Return an open change of Dora's address, which Frank asked for."""
    return AccountChange.objects.create(
        kind="email",
        subject=cast.dora,
        value="dora@example.org",
        email=cast.dora.email,
        username="dora",
        requested_by=cast.frank,
        requested_at=AT,
        expires_at=AT + timedelta(days=7),
    )


def refuses(row: models.Model, **changes: Any) -> bool:  # noqa: ANN401 - Values of any column.
    """Whether the database refuses that columns of a row change."""
    same = type(row)._default_manager.filter(pk=row.pk)  # noqa: SLF001 - Documented.
    try:
        with transaction.atomic():
            same.update(**changes)
    except IntegrityError as error:
        return "stays" in str(error)
    return False


@pytest.mark.parametrize("state", ["approved", "declined", "expired"])
def test_a_decided_change_is_neither_opened_nor_decided_otherwise(
    cast: Cast, change: AccountChange, state: str
) -> None:
    """The attack: open it, then decide it otherwise; each update alone fits the constraints."""
    signed = {} if state == "expired" else {"decided_by": cast.ann, "decided_at": AT}
    assert not refuses(change, state=state, **signed)

    assert refuses(change, state="open", decided_by=None, decided_at=None)
    assert refuses(change, state="approved", decided_by=cast.alice, decided_at=AT)
    assert AccountChange.objects.get().state == state


def test_what_is_asked_for_stays_while_it_is_open(cast: Cast, change: AccountChange) -> None:
    later = change.expires_at + timedelta(days=1)

    for changes in (
        {"value": "frank@example.org"},
        {"kind": "role", "value": "finance_admin"},
        {"subject": cast.carol},
        {"requested_by": cast.carol},
        {"email": "other@example.test"},
        {"expires_at": later},
    ):
        assert refuses(change, **changes)


@pytest.mark.parametrize("closed", ["accepted_at", "withdrawn_at"])
def test_an_invitation_that_was_used_or_taken_back_is_not_opened(cast: Cast, closed: str) -> None:
    invitation = make_invitation(cast.llm, cast.bob)
    assert not refuses(invitation, **{closed: AT})

    assert refuses(invitation, **{closed: None})
    assert refuses(invitation, accepted_at=AT, accepted_by=cast.mallory)


def test_an_open_invitation_offers_what_it_offered(cast: Cast) -> None:
    invitation = make_invitation(cast.llm, cast.bob)

    assert refuses(invitation, project=cast.virus)
    assert refuses(invitation, email="mallory@example.test")
    assert refuses(invitation, role="project_lead")
    assert refuses(invitation, invited_by=cast.alice)
    assert refuses(invitation, digest=b"1" * 32)


@pytest.mark.parametrize("model", [AccountChange, Invitation])
@pytest.mark.usefixtures("change")
def test_they_are_not_deleted(cast: Cast, model: type[models.Model]) -> None:
    make_invitation(cast.llm, cast.bob)

    with pytest.raises(DatabaseError, match=r"are kept|permission denied"):
        model._default_manager.all().delete()  # noqa: SLF001 - Documented.

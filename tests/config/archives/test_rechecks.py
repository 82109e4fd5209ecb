"""Hours whose usage is archived are not rechecked: all that is known would seem to be new."""

from datetime import timedelta

import psycopg
import pytest

from metering.domain.corrections.correction import RecheckReason
from metering.models import MeteringWindow, WindowRecheck
from metering.services.corrections.rechecks import ask_recheck, make_due_rechecks
from tenants.domain.archives import MonthArchivedError
from tests.support.config.archives import attach_rows, detach_rows
from tests.support.metering.waste_world import DAY, HOUR, TICK, make_waste_world

pytestmark = pytest.mark.usefixtures("committed_db")
LATER = DAY + timedelta(days=2)
USAGE = "metering_usagerecord"


@pytest.fixture
def hour(committed_db: str) -> MeteringWindow:  # noqa: ARG001 - In a database of its own.
    """A sealed hour with a pod, which was collected soon after its end."""
    world = make_waste_world()
    world.hold()
    return world.hour(0)


def test_no_recheck_is_made_of_an_archived_hour_until_it_is_restored(
    hour: MeteringWindow, owner: psycopg.Connection
) -> None:
    owner.execute("ALTER TABLE metering_meteringwindow DISABLE TRIGGER USER")
    owner.execute("UPDATE metering_meteringwindow SET collected_at = %s", [hour.start_at + HOUR])
    detach_rows(owner, "usage", USAGE)

    assert make_due_rechecks(at=LATER) == 0

    attach_rows(owner, USAGE)
    assert make_due_rechecks(at=LATER) == 1
    assert WindowRecheck.objects.get().window == hour


def test_a_person_who_asks_for_one_learns_that_the_month_is_archived(
    hour: MeteringWindow, owner: psycopg.Connection
) -> None:
    detach_rows(owner, "usage", USAGE)

    with pytest.raises(MonthArchivedError, match=r"The usage of 2026-10 is archived\."):
        ask_recheck(window_id=hour.pk, reason=RecheckReason.PERSON, actor=TICK, at=LATER)

    assert not WindowRecheck.objects.exists()

"""Charges are added up by the local day of their organization, and none is missed."""

import re
from datetime import UTC, date, datetime, timedelta
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

import billing
from billing.domain.period import month_of
from billing.models import ChangedHour, DailyCost
from billing.selectors.daily_costs import check_daily_costs
from billing.services.accrual import accrue_windows
from billing.services.showback import add_up_changed_days
from billing.tasks import ACTOR, add_up_days
from billing.tasks import accrual as tasks
from tenants.domain.verification import Cursor
from tests.support.billing.late import accrue_late, correct
from tests.support.billing.ledger import (
    HOUR,
    TICK,
    Ledger,
    Use,
    accrue_everything,
    make_ledger,
    sealed_window,
)
from tests.support.builders import AT, MONTH_START
from tests.support.threads import in_thread

FIRST = date(2026, 10, 1)
SECOND = date(2026, 10, 2)


def use(ledger: Ledger, *, hour: int, unit_seconds: int = 3600) -> None:
    sealed_window(
        ledger.cluster, [Use(ledger.llm, unit_seconds)], start_at=MONTH_START + hour * HOUR
    )
    accrue_everything()


def days() -> list[tuple[date, str, int]]:
    rows = DailyCost.objects.order_by("day", "organization__slug", "project__slug")
    return list(rows.values_list("day", "project__slug", "unit_seconds"))


def differences() -> list[str]:
    found: list[str] = []
    cursor: Cursor | None = {}
    while cursor is not None:
        batch = check_daily_costs(cursor)
        found += batch.differences
        cursor = batch.cursor
    return found


@pytest.mark.django_db
def test_an_hour_belongs_to_the_local_day_in_which_it_ends() -> None:
    ledger = make_ledger("acme", time_zone="Asia/Kolkata")
    for hour in (17, 18, 19):
        use(ledger, hour=hour)

    assert add_up_days(at=AT, actor=ACTOR) == 2

    assert days() == [(FIRST, "llm", 3600), (SECOND, "llm", 7200)]
    assert ChangedHour.objects.count() == 0
    assert add_up_days(at=AT, actor=ACTOR) == 0


@pytest.mark.parametrize(
    "zone",
    ["Asia/Kathmandu", "America/St_Johns", "Asia/Beirut", "Atlantic/Azores", "America/Asuncion"],
)
@pytest.mark.django_db
def test_a_day_is_in_the_billing_month_of_its_hours(zone: str) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [begin + day * timedelta(days=1) + n * HOUR for day in range(364) for n in range(24)]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT to_char(billing_local_day(h, %s), 'YYYY-MM') FROM unnest(%s::timestamptz[]) h",
            [zone, hours],
        )
        found = [label for (label,) in cursor.fetchall()]

    assert found == [month_of(hour, ZoneInfo(zone)).label for hour in hours]


def test_every_statement_that_inserts_charges_notes_their_hours() -> None:
    inserting = {
        path.name: text
        for path in Path(billing.__file__).parent.rglob("*.py")
        if re.search(r"INSERT INTO billing_charge\b", text := path.read_text("utf-8"))
    }

    assert sorted(inserting) == ["rating_statements.py", "repricing.py"]
    for text in inserting.values():
        statements = len(re.findall(r"INSERT INTO billing_charge\b", text))
        assert statements == len(re.findall(r"note_changed_hours\(\"", text)) == 1


@pytest.mark.django_db
def test_late_charges_and_reversed_ones_change_their_day_only() -> None:
    ledger = make_ledger()
    use(ledger, hour=1)
    use(ledger, hour=30)
    add_up_changed_days()
    second = DailyCost.objects.get(day=SECOND)

    use(ledger, hour=2, unit_seconds=60)
    assert add_up_changed_days() == 1

    assert days() == [(FIRST, "llm", 3660), (SECOND, "llm", 3600)]
    assert DailyCost.objects.get(day=SECOND).pk == second.pk


@pytest.mark.django_db
def test_a_corrected_hour_is_added_up_with_its_correction() -> None:
    ledger = make_ledger()
    window = sealed_window(ledger.cluster, [Use(ledger.llm)])
    accrue_everything()
    add_up_changed_days()

    accrue_late(correct(window, ledger.llm, -3600))
    add_up_changed_days()

    assert days() == []


@pytest.mark.usefixtures("committed_db")
def test_charges_that_commit_after_the_sweep_are_added_up_by_the_next() -> None:
    ledger = make_ledger()
    use(ledger, hour=1)
    late = sealed_window(ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 2 * HOUR)

    with transaction.atomic():
        accrue_windows(window_ids=[late.pk], actor=TICK, at=AT)
        assert in_thread(add_up_changed_days) == 1

    assert days() == [(FIRST, "llm", 3600)]
    add_up_changed_days()

    assert days() == [(FIRST, "llm", 7200)]


@pytest.mark.django_db
def test_statements_do_not_grow_with_days_and_organizations() -> None:
    use(make_ledger(), hour=1)
    with CaptureQueriesContext(connection) as one:
        add_up_changed_days()
    for slug in ("globex", "umbrella"):
        ledger = make_ledger(slug)
        sealed_window(
            ledger.cluster, [Use(ledger.llm)], start_at=MONTH_START + 40 * HOUR * len(slug)
        )
    accrue_everything()
    with CaptureQueriesContext(connection) as many:
        assert add_up_changed_days() == 2

    assert len(one) == len(many)


@pytest.mark.django_db
def test_verify_names_organization_and_day_and_a_rebuild_repairs_both() -> None:
    ledger = make_ledger()
    use(ledger, hour=1)
    use(ledger, hour=30)
    assert differences() == []
    add_up_changed_days()
    assert differences() == []

    DailyCost.objects.filter(day=FIRST).update(unit_seconds=1)
    DailyCost.objects.filter(day=SECOND).update(day=date(2026, 12, 5))

    assert differences() == [
        f"The daily costs of acme on {day} are not those of its charges."
        for day in ("2026-10-01", "2026-10-02", "2026-12-05")
    ]
    out = StringIO()
    call_command("rebuild_daily_costs", "--organization", "acme", stdout=out)
    assert out.getvalue() == "3 of 3 days\n"
    assert differences() == []
    assert days() == [(FIRST, "llm", 3600), (SECOND, "llm", 3600)]


@pytest.mark.django_db
def test_a_rebuild_refuses_an_organization_that_is_not_there() -> None:
    with pytest.raises(CommandError, match="There is no organization acne"):
        call_command("rebuild_daily_costs", "--organization", "acne", stdout=StringIO())


@pytest.mark.django_db
def test_fewer_days_are_tried_where_a_batch_takes_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int | None] = []

    def add_up(*, notes: int | None = None) -> int:
        asked.append(notes)
        if notes is None:
            raise OperationalError("canceling statement due to statement timeout")
        return 3

    monkeypatch.setattr(tasks, "add_up_changed_days", add_up)

    assert add_up_days(at=AT, actor=ACTOR) == 3
    assert asked == [None, tasks.FEW_DAYS]

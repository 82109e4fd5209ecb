"""Partitions are made ahead, once each, by a role that owns nothing."""

from datetime import UTC, datetime

import pytest
from django.db import DatabaseError, connection, transaction

from metering.domain.errors import PartitionRangeError
from metering.services.collection.windows import ensure_partitions

pytestmark = pytest.mark.django_db


def partitions() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits"
            " WHERE inhparent = 'metering_usagerecord'::regclass ORDER BY 1"
        )
        return [name for (name,) in cursor.fetchall()]


def test_missing_months_are_made_once() -> None:
    before = partitions()
    march = datetime(2031, 3, 31, 23, tzinfo=UTC)

    assert ensure_partitions(from_month=march, months=2) == 2
    assert ensure_partitions(from_month=march, months=3) == 1
    assert sorted(set(partitions()) - set(before)) == [
        "metering_usagerecord_2031_03",
        "metering_usagerecord_2031_04",
        "metering_usagerecord_2031_05",
    ]


def test_a_temporary_table_does_not_stand_in_for_a_partition() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE metering_usagerecord_2031_03 (id bigint)")

        made = ensure_partitions(from_month=datetime(2031, 3, 1, tzinfo=UTC), months=1)

        cursor.execute("DROP TABLE pg_temp.metering_usagerecord_2031_03")
    assert made == 1
    assert "metering_usagerecord_2031_03" in partitions()


@pytest.mark.parametrize("months", [0, -1, 25])
def test_no_months_and_too_many_are_refused(months: int) -> None:
    before = partitions()

    with pytest.raises(PartitionRangeError) as refusal:
        ensure_partitions(from_month=datetime(2031, 1, 1, tzinfo=UTC), months=months)

    assert (refusal.value.code, refusal.value.field) == ("metering_partition_range", "months")
    assert partitions() == before


@pytest.mark.parametrize("year", [2000, 2090])
def test_months_far_from_now_are_refused_by_the_database(year: int) -> None:
    """The attack: the runtime role fills the catalogue with partitions that nothing needs."""
    before = partitions()

    with (
        pytest.raises(DatabaseError, match="more than 10 years from now"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "SELECT metering_ensure_partitions(%s, 1)", [datetime(year, 1, 1, tzinfo=UTC)]
        )

    assert partitions() == before


def test_every_partition_keeps_its_triggers_under_replication() -> None:
    ensure_partitions(from_month=datetime(2031, 1, 1, tzinfo=UTC), months=1)

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT tgenabled FROM pg_trigger"
            " WHERE tgrelid = 'metering_usagerecord_2031_01'::regclass AND NOT tgisinternal"
        )
        assert cursor.fetchall() == [("A",)]

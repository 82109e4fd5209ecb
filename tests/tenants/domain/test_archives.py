"""Months of archives, and manifests as text."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.archives import (
    ArchivedColumn,
    ArchivedFile,
    ArchiveDiffersError,
    ArchivedTable,
    ArchiveManifest,
    ArchiveMonth,
    ArchiveMonthInvalidError,
    MonthTable,
)

TABLE = MonthTable(
    name=ArchivedTable.USAGE,
    app="metering",
    table="metering_usagerecord",
    key="id",
    sums="'{}'::jsonb",
    guard="guard",
    relation="metering_usage",
)
MANIFEST = ArchiveManifest(
    table="usage",
    month="2025-09",
    rows=2,
    sums={"unit_seconds": "7200"},
    schema_version="0011_archived_usage",
    columns=(ArchivedColumn("id", "bigint"), ArchivedColumn("owner", "character varying(150)")),
    windows=720,
    audit={"entry": 7, "leaf": "ab", "verified_count": 6, "verified_digest": "cd"},
    files=(ArchivedFile("usage.parquet", 10, "00"), ArchivedFile("windows.csv", 20, "11")),
)


@pytest.mark.parametrize(
    ("label", "begin_at", "end_at"),
    [
        ("2025-09", datetime(2025, 9, 1, tzinfo=UTC), datetime(2025, 10, 1, tzinfo=UTC)),
        ("2025-12", datetime(2025, 12, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)),
        ("2024-02", datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        ("2199-12", datetime(2199, 12, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_month_begins_and_ends_in_utc(label: str, begin_at: datetime, end_at: datetime) -> None:
    month = ArchiveMonth.parse(label)

    assert (month.label, month.begin_at, month.end_at) == (label, begin_at, end_at)


@pytest.mark.parametrize(
    "label",
    [
        "",
        "2025",
        "2025-13",
        "2025-00",
        "2025-9",
        "1999-12",
        "2025-09-01",
        "2025-09\n",
        "x",
        "20\u0662\u0665-09",
    ],
)
def test_what_names_no_month_is_refused(label: str) -> None:
    with pytest.raises(ArchiveMonthInvalidError) as refused:
        ArchiveMonth.parse(label)

    assert (refused.value.code, refused.value.field) == ("archive_month_invalid", "month")


@given(st.integers(2000, 2199), st.integers(1, 12))
def test_months_follow_each_other_without_a_gap(year: int, number: int) -> None:
    month = ArchiveMonth.parse(f"{year}-{number:02}")

    following = f"{month.end_at:%Y-%m}"
    if month.end_at.year < 2200:
        assert ArchiveMonth.parse(following).begin_at == month.end_at
    assert (month.begin_at.day, month.begin_at.hour) == (1, 0)


def test_partition_and_folder_have_the_month_in_their_names() -> None:
    month = ArchiveMonth.parse("2025-09")

    assert TABLE.partition(month) == "metering_usagerecord_2025_09"
    assert TABLE.folder(month) == "usage-2025-09"


def test_a_manifest_is_read_back_as_it_was_written() -> None:
    assert ArchiveManifest.parse(MANIFEST.text()) == MANIFEST
    assert ArchiveManifest.parse(MANIFEST.text()).text() == MANIFEST.text()
    assert MANIFEST.text().endswith("}\n")


def test_a_manifest_names_its_files() -> None:
    assert MANIFEST.file("windows.csv").bytes == 20
    with pytest.raises(ArchiveDiffersError, match=r"has no file other\.csv"):
        MANIFEST.file("other.csv")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        "{}",
        json.dumps({"format": 1}),
        json.dumps({**json.loads(MANIFEST.text()), "extra": 1}),
        json.dumps({**json.loads(MANIFEST.text()), "files": [{"name": "x"}]}),
        json.dumps({**json.loads(MANIFEST.text()), "columns": None}),
        json.dumps({**json.loads(MANIFEST.text()), "columns": [{"name": 1, "type": 2}]}),
        json.dumps({**json.loads(MANIFEST.text()), "rows": "2"}),
        json.dumps({**json.loads(MANIFEST.text()), "rows": True}),
        json.dumps({**json.loads(MANIFEST.text()), "sums": 5}),
        json.dumps({**json.loads(MANIFEST.text()), "sums": {"unit_seconds": 7200}}),
        json.dumps({**json.loads(MANIFEST.text()), "month": None}),
        "[" * 100_000,
        "9" * 5_000,
    ],
)
def test_a_text_that_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(ArchiveDiffersError, match=r"manifest\.json cannot be read"):
        ArchiveManifest.parse(text)


@pytest.mark.parametrize(
    "name",
    ["../usage.parquet", "/etc/passwd", "usage\0.parquet", "usage.parquet\n", "", ".", "x" * 300],
)
def test_a_manifest_names_files_of_its_own_folder_only(name: str) -> None:
    values = json.loads(MANIFEST.text())
    values["files"][0]["name"] = name

    with pytest.raises(ArchiveDiffersError, match="no file of an archive"):
        ArchiveManifest.parse(json.dumps(values))


def test_a_manifest_of_a_later_format_is_refused_with_its_number() -> None:
    text = MANIFEST.text().replace('"format": 1', '"format": 2')

    with pytest.raises(ArchiveDiffersError, match="has the format 2"):
        ArchiveManifest.parse(text)

"""When a month of usage is finished: nothing that is still to be read would be read as none."""

from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from pytest_django import Settings

from billing.services.accrual import accrue_corrections, accrue_windows
from config.management import archives
from metering.models import ClusterHealth, UsageCorrection, UsageRecord
from metering.services.corrections.review import ask_correction
from tenants.models import Cluster, Project
from tenants.selectors.actors import actor_of_user
from tenants.selectors.people import user_named
from tests.support.billing.ledger import HOUR, TICK, Use, make_ledger, sealed_window
from tests.support.builders import AT, MONTH_START, bind
from tests.support.config.archives import archive, finish_month, refusal

pytestmark = pytest.mark.usefixtures("world")
MONTH_END = MONTH_START + timedelta(days=31)
QUOTAS = "days in which quotas are compared with its use"
WASTE = "days in which waste is derived from its use"


def test_use_that_is_added_up_and_not_rated_keeps_its_month(tmp_path: Path) -> None:
    other = make_ledger("initech", cluster_slug=Cluster.objects.get().slug, bound_hours=3)
    window = sealed_window(other.cluster, [Use(other.llm)], start_at=MONTH_START + 2 * HOUR)
    accrue_windows(window_ids=[window.pk], organization_ids=[], actor=TICK, at=AT)
    finish_month()

    refused = refusal("archive_month", tmp_path)

    assert refused.startswith("2026-10 is not finished: 1 sealed windows that are not charged.")
    assert list(tmp_path.iterdir()) == []


def test_an_hour_that_is_metered_and_not_opened_yet_keeps_its_month(tmp_path: Path) -> None:
    finish_month()
    cluster = Cluster.objects.get()
    bind(
        cluster,
        "earlier",
        Project.objects.earliest("slug"),
        begin_at=MONTH_START + 2 * HOUR,
        end_at=MONTH_START + 4 * HOUR,
    )

    refused = refusal("archive_month", tmp_path)

    assert refused.startswith(
        "2026-10 is not finished: 2 hours that are metered and have no window yet"
    )
    assert list(tmp_path.iterdir()) == []
    Cluster.objects.update(metered_until=MONTH_START + 2 * HOUR)
    archive(tmp_path)


def test_hours_whose_credits_are_not_derived_keep_their_month(
    tmp_path: Path, owner: psycopg.Connection
) -> None:
    finish_month()
    owner.execute("DELETE FROM metering_clusterhealth WHERE window_start = %s", [MONTH_START])

    refused = refusal("archive_month", tmp_path)

    assert refused.startswith("2026-10 is not finished: 1 hours whose credits are not derived.")


def test_an_hour_that_was_corrected_keeps_its_month_until_its_credits_are(tmp_path: Path) -> None:
    finish_month()
    ask_correction(
        record=UsageRecord.objects.earliest("pk"),
        unit_seconds=-60,
        reason="It ended earlier.",
        is_four_eyes=False,
        actor=actor_of_user(user_named("frank")),
        at=AT,
    )
    corrections = list(UsageCorrection.objects.values_list("pk", flat=True))
    accrue_corrections(correction_ids=corrections, actor=TICK, at=AT)

    waiting = "1 hours that were corrected since their credits were derived"
    refused = refusal("archive_month", tmp_path)
    assert refused.startswith(f"2026-10 is not finished: {waiting}.")

    ClusterHealth.objects.filter(window_start=MONTH_START).update(corrections_seen=1)
    assert "4 rows, unit_seconds 8940" in archive(tmp_path)


@pytest.mark.parametrize(
    ("thresholds", "at", "waiting"),
    [
        ({}, MONTH_END + timedelta(days=1), f"13 {QUOTAS}"),
        ({}, MONTH_END + timedelta(days=13, seconds=1), f"1 {QUOTAS}"),
        ({"hoarding_hours": 744}, MONTH_END + timedelta(days=14), f"17 {QUOTAS}"),
        ({"oversized_hours": 480}, MONTH_END + timedelta(days=14), f"6 {WASTE}"),
    ],
)
def test_usage_stays_while_quotas_or_waste_are_compared_with_it(
    thresholds: dict[str, int],
    at: datetime,
    waiting: str,
    tmp_path: Path,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finish_month()
    settings.WASTE_THRESHOLDS = thresholds
    monkeypatch.setattr(archives, "database_now", lambda: at)

    refused = refusal("archive_month", tmp_path)
    assert refused.startswith(f"2026-10 is not finished: {waiting}.")
    assert "3 rows" in archive(tmp_path, "charges")

    last_at = at + timedelta(days=int(waiting.split(maxsplit=1)[0]))
    monkeypatch.setattr(archives, "database_now", lambda: last_at)
    assert "3 rows" in archive(tmp_path)

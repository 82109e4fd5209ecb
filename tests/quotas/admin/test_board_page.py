"""The quota board page: who holds what, who is over, who waits and who keeps."""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction
from uuid import UUID

import pytest
from django.test import Client, override_settings
from django.utils import timezone

from metering.domain.catalogue.units import GPUSize
from quotas.admin.board import BoardRow, exhaustion_text, grant_text
from quotas.domain.headroom.headroom import Exhaustion, ExhaustionOutcome, Headroom
from quotas.models import QuotaLimit
from quotas.selectors.headroom.board_lines import BoardLine
from quotas.selectors.limits.in_force import GrantTerm
from tenants.models import Cluster
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.builders import hold, make_limit, see_size
from tests.support.quotas.fair_use import give, refuse, reserve, suspend
from tests.support.quotas.fair_use_caps import make_wall
from tests.support.shared_rows import shared_rows

BOARD = "/admin/quotas/quotalimit/board/"


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    """Leave the menu, which spans the apps, to unfold."""
    with override_settings(UNFOLD={}):
        yield


@shared_rows
def hopper(cast: Cast) -> Cluster:
    cluster = make_cluster("hopper", admission_mode="enforce", is_watched=True)
    bind(cluster, "llm", cast.llm)
    bind(cluster, "virus", cast.virus)
    return cluster


def page(cast: Cast, query: str = "") -> str:
    """Return the page as the auditor sees it, each run of spaces as one."""
    cast.ann.is_staff = True
    cast.ann.save()
    client = Client()
    client.force_login(cast.ann)
    answer = client.get(BOARD + query)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def row(line: BoardLine) -> BoardRow:
    return BoardRow(1, "LLM", line, is_first=True, is_suspended=False)


def test_used_against_limit_is_shown_down_to_the_users(hopper: Cluster, cast: Cast) -> None:
    reserve(hopper, cast.llm, units=3, username="carol")
    make_limit(cast.acme, units=6)
    make_limit(cast.acme, cast.llm, units=2)

    shown = page(cast)

    assert "3 of 6" in shown
    assert "3 of 2" in shown
    assert "1 over" in shown
    assert "3, no limit" in shown
    assert "carol" in shown
    assert 'style="width: 50%"' in shown


def test_where_nobody_admits_running_pods_are_shown(cast: Cast) -> None:
    bind(make_cluster("plain"), "llm", cast.llm)
    hold(Cluster.objects.get(), "llm", units=5)

    assert "5, no limit" in page(cast)


def test_a_full_quota_in_the_cluster_is_noted_although_the_limit_has_room(cast: Cast) -> None:
    plain = make_cluster("plain")
    bind(plain, "llm", cast.llm)
    see_size(plain, "nvidia.com/gpu", "large", at=timezone.now())
    make_limit(cast.acme, cast.llm, units=16)
    make_wall(plain, cast.llm, hard=12, used=16, read_at=timezone.now())

    shown = page(cast)

    assert "0 of 16" in shown
    assert shown.count("full in the cluster: plain") == 1


def test_what_a_cluster_leaves_and_what_was_not_read_lately_are_noted(cast: Cast) -> None:
    now = timezone.now()
    for slug, minutes in (("plain", 24), ("silent", 26)):
        cluster = make_cluster(slug)
        bind(cluster, "llm", cast.llm)
        see_size(cluster, "nvidia.com/gpu", "large", at=now)
        read_at = now - timedelta(minutes=minutes)
        make_wall(cluster, cast.llm, hard=12, used=9, read_at=read_at)
    make_limit(cast.acme, cast.llm, units=16)

    shown = page(cast)

    assert "3 left in the cluster: plain" in shown
    assert "not read lately: silent" in shown
    assert "left in the cluster: silent" not in shown


def test_who_waits_is_reported_by_name_and_the_rest_is_counted(hopper: Cluster, cast: Cast) -> None:
    now = timezone.now()
    for number in range(7):
        refuse(
            hopper,
            cast.llm,
            units=4,
            workload=f"Job/train-{number}",
            username="carol",
            last_at=now - timedelta(minutes=number + 1),
        )

    shown = page(cast)

    assert "Job/train-0 (carol)" in shown
    assert "limit_reached" in shown
    assert "Job/train-6" not in shown
    assert "and 2 more" in shown
    assert "7 wait" in shown


def test_a_grant_a_loan_and_a_suspension_stand_at_the_limit(hopper: Cluster, cast: Cast) -> None:
    give(make_limit(cast.acme, cast.llm, units=8), 4, end_at=None)
    suspend(cast.umbrella)

    shown = page(cast)

    assert hopper.slug == "hopper"
    assert "0 of 12" in shown
    assert "limit 8" in shown
    assert "+4 until ended" in shown
    assert "Arrears." in shown


def test_a_filter_shows_one_organization_and_a_wrong_one_says_so(cast: Cast) -> None:
    make_limit(cast.acme, units=61)
    make_limit(cast.umbrella, units=62)

    assert "of 61" in page(cast, "?organization=acme")
    assert "of 62" not in page(cast, "?organization=acme")
    assert "No organizations" in page(cast, "?organization=nobody")


def test_unlimited_is_not_the_same_as_no_limit(cast: Cast) -> None:
    limit = make_limit(cast.acme, cast.llm)
    QuotaLimit.objects.filter(pk=limit.pk).update(limit_units=None, model_group="H100")

    shown = page(cast)

    assert "0, unlimited" in shown
    assert "Large H100" in shown


def test_it_is_named_at_the_top_and_not_after_the_limits(cast: Cast) -> None:
    (title,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page(cast))

    assert re.sub(r"<[^>]*>| ", "", title).split("chevron_right")[-1] == "Quotaboard"


def test_the_reason_of_a_suspension_stands_apart_from_the_table(cast: Cast) -> None:
    suspend(cast.umbrella)

    shown = page(cast)
    acme, umbrella = (shown.index(f">{name}<") for name in (" Acme ", " Umbrella "))

    assert "-mt-6" in shown[acme:umbrella]
    assert "-mt-6" not in shown[umbrella:]


@pytest.mark.parametrize(
    ("limit", "held", "reserved", "tone", "widths"),
    [
        (None, 3, 0, "open", (0, 0)),
        (8, 3, 0, "calm", (37, 0)),
        (10, 8, 1, "near", (80, 10)),
        (8, 6, 2, "full", (75, 25)),
        (8, 9, 2, "over", (100, 0)),
        (0, 0, 0, "none", (0, 0)),
        (0, 0, 2, "over", (0, 100)),
        (0, 3, 0, "over", (100, 0)),
    ],
)
def test_a_bar_shows_how_full_it_is(
    limit: int | None, held: int, reserved: int, tone: str, widths: tuple[int, int]
) -> None:
    headroom = Headroom(limit_units=limit, used_units=held, reserved_units=reserved)
    made = row(BoardLine(GPUSize.LARGE, headroom))

    assert made.tone == tone
    assert (headroom.held_percent, made.reserved_percent) == widths


def test_a_size_is_named_with_its_model_and_its_cluster() -> None:
    line = BoardLine(
        GPUSize.MEDIUM, Headroom(limit_units=1, used_units=0), model_group="A100", cluster="hopper"
    )

    assert (row(line).size, row(line).forecast) == ("Medium A100 on hopper", "")


@pytest.mark.parametrize(
    ("units", "end_at", "reason", "words"),
    [
        (4, datetime(2026, 11, 6, tzinfo=AT.tzinfo), "request", "+4 until Fri 6 Nov"),
        (-3, datetime(2026, 11, 6, tzinfo=AT.tzinfo), "loan", "-3 lent until Fri 6 Nov"),
        (3, None, "loan", "+3 borrowed until ended"),
    ],
)
def test_a_grant_is_reported_in_words(
    units: int, end_at: datetime | None, reason: str, words: str
) -> None:
    assert grant_text(GrantTerm(UUID(int=1), units, AT, end_at, reason)) == words


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (ExhaustionOutcome.EXPECTED, "full about Mon 9 Nov"),
        (ExhaustionOutcome.REACHED, "full by its trend"),
        (ExhaustionOutcome.TOO_LITTLE_HISTORY, "too little history"),
        (ExhaustionOutcome.NOT_WITHIN_HORIZON, ""),
    ],
)
def test_a_forecast_is_reported_in_words(outcome: ExhaustionOutcome, words: str) -> None:
    on = date(2026, 11, 9) if outcome is ExhaustionOutcome.EXPECTED else None

    assert exhaustion_text(Exhaustion(outcome, on=on, weekly_units=Fraction(1))) == words

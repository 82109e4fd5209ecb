"""The dashboard of a small built world: exact values, who gets it, and which month it shows."""

from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.test import Client

from billing.models import DailyCost, Invoice
from config.dashboard.context import build_dashboard, month_of, shown_month
from metering.domain.corrections.exceptions import ExceptionKind
from metering.models import MeteringWindow
from tests.browser.world import add_capacity, add_exception, make_world
from tests.support.billing.office import Office
from tests.support.builders import AT, MONTH_END, MONTH_START
from tests.support.shared_rows import shared_rows

EMPTY = datetime(2025, 5, 1, tzinfo=UTC)


@shared_rows
def world() -> Office:
    return make_world()


def dashboard_of(begin_at: datetime, *, at: datetime) -> dict[str, Any]:
    return build_dashboard(DailyCost.objects.all(), begin_at, at=at)


def texts(table: dict[str, list[list[dict[str, str]]]]) -> list[list[str]]:
    return [[cell["text"] for cell in row] for row in table["rows"]]


@pytest.mark.usefixtures("world")
def test_cards_add_up_what_the_tables_show() -> None:
    dashboard = dashboard_of(MONTH_START, at=AT)

    assert [(card["title"], card["value"]) for card in dashboard["cards"]] == [
        ("Cost in EUR", "3.03 EUR"),
        ("Charged use", ""),
        ("Idle capacity", ""),
    ]
    assert [card["lines"] for card in dashboard["cards"][1:]] == [
        [{"name": "Small", "value": "1.5 unit-hours"}],
        [{"name": "Small", "value": "20.0 %"}],
    ]
    assert dashboard["cards"][-1]["note"] == "Of 10.0 small unit-hours."
    assert texts(dashboard["organizations"]) == [
        ["Acme", "1.5", "0.0", "0.0", "3.00 EUR", "draft", "3.00 EUR"],
        ["Umbrella", "0.0", "0.0", "0.0", "0.03 EUR", "not yet", ""],
    ]


@pytest.mark.usefixtures("world")
def test_an_organizations_invoice_is_one_click_away() -> None:
    rows = dashboard_of(MONTH_START, at=AT)["organizations"]["rows"]

    assert rows[0][5]["link"] == f"/admin/billing/invoice/{Invoice.objects.get().pk}/change/"


@pytest.mark.usefixtures("world")
def test_everything_that_waits_is_reported_with_its_count() -> None:
    dashboard = dashboard_of(MONTH_START, at=AT)

    assert texts(dashboard["waiting"]) == [
        ["Exception: unbound namespace", "use is held", "1"],
        ["Invoices to finalize", "by another person than the drafter", "1"],
        ["Quota requests", "approve or reject", "1"],
    ]


def test_each_line_of_what_waits_leads_to_just_that(world: Office) -> None:
    window = MeteringWindow.objects.get(cluster__slug="ampere")
    add_exception(window, ExceptionKind.UNKNOWN_DEVICE, held=10**9, subject="pod-2")
    add_exception(window, ExceptionKind.INVALID_REQUEST, held=0, subject="pod-3")
    MeteringWindow.objects.filter(pk=window.pk).update(state="gap")
    client = Client()
    client.force_login(world.cast.frank)

    rows = dashboard_of(MONTH_START, at=AT)["waiting"]["rows"]

    reported = {row[0]["text"]: row[1]["text"] for row in rows}
    assert reported["Exception: unknown device"] == "held, in units no rule knows"
    assert reported["Exception: invalid request"] == "nothing held"
    for row in rows:
        page = client.get(row[0]["link"])
        assert page.status_code == 200, row
        assert str(page.context["cl"].result_count) == row[2]["text"], row
    assert len(rows) == 6


@pytest.mark.usefixtures("world")
def test_a_device_no_rule_knows_is_named_and_counts_nowhere() -> None:
    before = dashboard_of(MONTH_START, at=AT)
    window = MeteringWindow.objects.get(cluster__slug="ampere")
    add_capacity(window, "", capacity=10**9, billed=0)

    after = dashboard_of(MONTH_START, at=AT)

    assert after["cards"] == before["cards"]
    assert after["capacity"] == [
        *before["capacity"],
        {"title": "Ampere: devices no rule knows", "note": "not counted", "parts": []},
    ]


@pytest.mark.usefixtures("world")
def test_a_capacity_bar_shows_its_three_parts() -> None:
    (bar,) = dashboard_of(MONTH_START, at=AT)["capacity"]

    assert (bar["title"], bar["note"]) == ("Ampere: A100/1of4", "10.0 small unit-hours")
    assert [(part["title"], part["percent"]) for part in bar["parts"]] == [
        ("Billed", "75.0"),
        ("Held back", "5.0"),
        ("Idle", "20.0"),
    ]


@pytest.mark.django_db
def test_a_month_without_anything_is_empty_and_not_an_error() -> None:
    dashboard = dashboard_of(EMPTY, at=AT)

    assert dashboard["month_name"] == "May 2025"
    assert [card["value"] for card in dashboard["cards"]] == ["none", "none offered"]
    assert dashboard["cost_charts"] == []
    assert dashboard["capacity"] == []
    assert dashboard["organizations"]["rows"] == []
    assert dashboard["waiting"]["rows"] == []


@pytest.mark.usefixtures("world")
def test_another_month_shows_none_of_october_but_what_waits_without_a_month() -> None:
    dashboard = dashboard_of(MONTH_END, at=AT)

    assert dashboard["cost_charts"] == []
    assert texts(dashboard["waiting"]) == [["Quota requests", "approve or reject", "1"]]


@pytest.mark.django_db
def test_the_present_month_and_the_two_before_it_are_offered() -> None:
    january = datetime(2027, 1, 15, tzinfo=UTC)

    assert dashboard_of(month_of(january), at=january)["months"] == [
        {"label": "2026-11", "name": "November", "is_shown": False},
        {"label": "2026-12", "name": "December", "is_shown": False},
        {"label": "2027-01", "name": "January", "is_shown": True},
    ]


@pytest.mark.parametrize(
    ("wanted", "label"),
    [
        ("2026-10", "2026-10"),
        ("", "2026-11"),
        ("2026-13", "2026-11"),
        ("0001-01", "2026-11"),
        ("9999-12", "2026-11"),
        ("2199-12", "2026-11"),
        ("2026-10-01", "2026-11"),
        ("x\x00", "2026-11"),
    ],
)
def test_nonsense_shows_the_month_that_is_shown_without_it(wanted: str, label: str) -> None:
    assert f"{shown_month(wanted, at=AT):%Y-%m}" == label


def test_the_page_opens_on_the_last_month_with_costs_and_leads_to_them(world: Office) -> None:
    DailyCost.objects.update(day=date(2026, 3, 9))
    client = Client()
    client.force_login(world.cast.dora)

    dashboard = client.get("/admin/").context["dashboard"]

    assert dashboard["month_name"] == "March 2026"
    assert [tab["label"] for tab in dashboard["months"] if tab["is_shown"]] == ["2026-03"]
    assert dashboard["costs_link"].endswith("/costs/?begin=2026-03-01&last=2026-03-31")
    assert client.get(dashboard["costs_link"]).context["totals"][0]["cost"] == "3.03 EUR"
    assert dashboard["metered_until"] == MONTH_START


@pytest.mark.parametrize("name", ["dora", "frank", "ann"])
def test_the_page_is_shown_to_those_who_may_read_it_all(world: Office, name: str) -> None:
    client = Client()
    client.force_login(getattr(world.cast, name))

    page = client.get("/admin/?month=2026-10")

    assert page.context["dashboard"]["month_name"] == "October 2026"
    assert "Ampere: A100/1of4" in page.content.decode()


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_a_role_of_one_organization_sees_no_figure(world: Office, name: str) -> None:
    client = Client()
    client.force_login(getattr(world.cast, name))

    page = client.get("/admin/?month=2026-10")

    assert page.status_code == 200
    assert "dashboard" not in page.context
    assert "Your role has no dashboard." in page.content.decode()
    assert "EUR" not in page.content.decode()


def test_the_number_of_statements_does_not_grow_with_the_world(
    world: Office, django_assert_max_num_queries: object
) -> None:
    window = MeteringWindow.objects.get(cluster__slug="ampere")
    for size in ("medium", "large", ""):
        add_capacity(window, size, capacity=3_600, billed=1_800)
    for number, kind in enumerate(ExceptionKind):
        add_exception(window, kind, held=60, subject=f"pod-{number + 10}")

    with django_assert_max_num_queries(14):  # type: ignore[operator]
        dashboard_of(MONTH_START, at=AT)
    assert world.cast.acme.name == "Acme"

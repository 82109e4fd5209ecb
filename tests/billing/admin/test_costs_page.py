"""The page "Costs": what it opens on, how groups open, its file, and the views people keep."""

import json
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.admin.cost_charts import GROUPS_MAX
from billing.domain.costs import VIEWS_MAX
from billing.models import CostView, DailyCost
from billing.services.showback import add_up_changed_days
from tenants.models import AuditEntry, Cluster, Organization, Project
from tests.support.billing.ledger import HOUR, Use, accrue_everything, sealed_window
from tests.support.billing.office import Office
from tests.support.builders import AT, MONTH_START, new_organization, new_project
from tests.support.shared_rows import shared_rows
from tests.support.tenants.clients import api_client
from tests.support.workbooks import cells

PAGE = "/admin/billing/dailycost/costs/"
OCTOBER = "begin=2026-10-01&last=2026-10-31"
EVERYBODY = 300
CLUSTER = UUID(int=1)
"""Nothing here looks its name up."""
VIRUS_FIGURES = ["60", "0.016667", "0.03", "0.00", "0.0110"]
STATEMENTS_MAX = 20
BYTES_MAX = 300 * 1024


@shared_rows
def costs(office: Office) -> Office:
    User.objects.exclude(username="carol").update(is_staff=True)
    add_up_changed_days()
    return office


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def context_of(user: User, query: str) -> dict[str, Any]:
    answer: Any = client_of(user).get(f"{PAGE}?{query}")
    assert answer.status_code == 200
    return dict(answer.context_data)


def daily(project: Project, day: date, *, owner: str = "carol", size: str = "small") -> DailyCost:
    return DailyCost(
        organization=project.organization,
        day=day,
        project=project,
        owner=owner,
        cluster_id=CLUSTER,
        size=size,
        price_group=f"H100/{size}",
        unit_price=Decimal(2),
        currency="EUR",
        unit_seconds=3600,
    )


def table(context: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (*(key["name"] for key in row["keys"]), row["hours"], row["cost"], row["share"])
        for row in context["rows"]
    ]


def test_the_table_has_groups_with_units_where_they_are_of_one_size(costs: Office) -> None:
    context = context_of(costs.cast.dora, f"{OCTOBER}&group_by=project&then_by=size")

    assert table(context) == [
        ("LLM", "Small", "1.0000", "2.00 EUR", "65.9 %"),
        ("VISION", "Small", "0.5000", "1.00 EUR", "33.0 %"),
        ("VIRUS", "Small", "0.0167", "0.03 EUR", "1.1 %"),
    ]
    assert [total["cost"] for total in context["totals"]] == ["3.03 EUR"]
    assert [chart["title"] for chart in context["charts"]] == ["Project: cost a day in EUR"]


def test_use_without_a_price_opens_from_the_costs_that_lack_it(costs: Office) -> None:
    use = Use(costs.cast.llm, 3600, size="large", price_group="H100/whole")
    sealed_window(Cluster.objects.get(), [use], start_at=MONTH_START + 50 * HOUR)
    accrue_everything()

    shown = context_of(costs.cast.dora, OCTOBER)
    rows: Any = client_of(costs.cast.dora).get(shown["unpriced_address"])

    assert shown["unpriced"] == "1.0000 Large"
    assert [row.unit_seconds for row in rows.context_data["cl"].result_list] == [3600]
    november = context_of(costs.cast.dora, "begin=2026-11-01&last=2026-11-30")
    assert november["unpriced"] == ""


def test_a_chart_has_the_largest_groups_and_the_others_together_by_day_or_week(
    costs: Office,
) -> None:
    DailyCost.objects.filter(owner="carol", project=costs.cast.llm).update(unit_seconds=36)
    DailyCost.objects.bulk_create(
        daily(costs.cast.llm, date(2026, 10, 3), owner=f"user-{n}") for n in range(GROUPS_MAX)
    )

    (days,) = context_of(costs.cast.dora, f"{OCTOBER}&group_by=owner&size=small")["charts"]
    (weeks,) = context_of(costs.cast.dora, "begin=2026-07-01&last=2026-10-31")["charts"]

    sets = json.loads(days["data"])["datasets"]
    assert [one["label"] for one in sets] == [f"user-{n}" for n in range(GROUPS_MAX)] + ["Others"]
    assert sets[0]["data"][:4] == ["0", "0", "2.00", "0"]
    assert [Decimal(amount) for amount in sets[-1]["data"][:3]] == [Decimal("1.05"), 0, 0]
    assert weeks["title"] == "Organization: cost a week in EUR"
    assert json.loads(weeks["data"])["labels"][-2:] == ["21 Oct", "28 Oct"]


def test_it_opens_on_the_last_month_with_costs(costs: Office) -> None:
    assert context_of(costs.cast.dora, "")["report"].query.first == date(2026, 10, 1)

    today = timezone.now().date()
    DailyCost.objects.update(day=today)

    context = context_of(costs.cast.dora, "")
    assert (context["preset"], context["report"].query.end) == (
        "this_month",
        today + timedelta(days=1),
    )


def test_a_group_opens_into_the_next_with_the_filters_so_far(costs: Office) -> None:
    rows = context_of(costs.cast.dora, f"{OCTOBER}&size=small")["rows"]

    opened = context_of(costs.cast.dora, rows[0]["keys"][0]["link"])

    assert [row[0] for row in table(opened)] == ["LLM", "VISION"]
    assert opened["form"]["size"].value() == "small"
    again = context_of(costs.cast.dora, opened["rows"][0]["keys"][0]["link"])
    assert table(again) == [("carol", "1.0000", "2.00 EUR", "100.0 %")]


def test_a_project_opens_with_its_organization_whose_projects_the_form_has(costs: Office) -> None:
    rows = context_of(costs.cast.dora, f"{OCTOBER}&group_by=project")["rows"]

    opened = context_of(costs.cast.dora, rows[0]["keys"][0]["link"])

    assert opened["form"].is_valid(), opened["form"].errors
    assert len(opened["rows"]) >= 1


def test_the_file_is_that_of_rest(costs: Office) -> None:
    dora = costs.cast.dora
    query = {"from": "2026-10-01", "to": "2026-11-01", "group_by": "project,size"}

    file = client_of(dora).get(f"{PAGE}?{OCTOBER}&group_by=project&then_by=size&csv=1")

    workbook = client_of(dora).get(f"{PAGE}?{OCTOBER}&group_by=project&then_by=size&xlsx=1")

    assert file.content == api_client(dora).get("/api/v1/costs/csv/", query).content
    assert file.content.count(b"\n") == 4
    served = api_client(dora).get("/api/v1/costs/xlsx/", query)
    assert cells(workbook.content) == cells(served.content)
    assert [text for _, text in cells(served.content)[-5:]] == VIRUS_FIGURES
    assert served["Content-Disposition"].endswith('"costs-2026-10-01-2026-10-31.xlsx"')


@pytest.mark.parametrize(
    ("query", "field", "text"),
    [
        ("begin=x&last=2026-10-31", "begin", "Enter a valid date."),
        ("begin=2026-10-02&last=2026-10-01", "last", "at most 366 days apart"),
        ("begin=2026-10-02&last=9999-12-31", "last", "at most 366 days apart"),
        ("begin=2026-10-02", "last", "This field is required."),
        (f"{OCTOBER}&group_by=day", "group_by", "Select a valid choice."),
        (f"{OCTOBER}&organization=x", "organization", "Select a valid choice."),
        (f"{OCTOBER}&owner=%00", "owner", "Null characters are not allowed."),
        (f"{OCTOBER}&owner={'x' * 151}", "owner", "at most 150 characters"),
    ],
)
def test_what_cannot_be_shown_stands_beside_its_field(
    costs: Office, query: str, field: str, text: str
) -> None:
    context = context_of(costs.cast.dora, query)

    assert list(context["form"].errors) == [field]
    assert text in str(context["form"].errors[field])
    assert "report" not in context


def test_a_person_keeps_views_that_others_do_not_see(costs: Office) -> None:
    dora, ann = client_of(costs.cast.dora), client_of(costs.cast.ann)
    for query in ("range=last_7_days", f"{OCTOBER}&size=small"):
        answer = dora.post(f"{PAGE}?{query}&group_by=owner", {"name": " Mine\u202e "})
        assert answer.status_code == 302

    (view,) = CostView.objects.all()
    assert (view.name, view.person, view.query) == (
        "Mine",
        costs.cast.dora,
        f"{OCTOBER}&group_by=owner&size=small",
    )
    ann.post(f"{PAGE}?{OCTOBER}", {"delete": str(view.pk)})
    ann.post(f"{PAGE}?{OCTOBER}", {"delete": "x"})
    assert list(context_of(costs.cast.ann, OCTOBER)["views"]) == []
    assert list(context_of(costs.cast.dora, OCTOBER)["views"]) == [view]
    dora.post(f"{PAGE}?{OCTOBER}", {"delete": str(view.pk)})
    assert not CostView.objects.exists()
    actions = AuditEntry.objects.filter(object_kind="cost_view").order_by("id")
    assert list(actions.values_list("action", flat=True)) == [
        "billing:cost_view:save",
        "billing:cost_view:save",
        "billing:cost_view:delete",
    ]


def test_a_range_that_moves_is_kept_as_one_until_other_days_are_typed(costs: Office) -> None:
    dora = costs.cast.dora
    moving = context_of(dora, "range=last_month&group_by=size")
    days = f"begin={moving['form']['begin'].value()}&last={moving['form']['last'].value()}"

    assert moving["address"] == "range=last_month&group_by=size"
    assert context_of(dora, f"range=last_month&{days}")["preset"] == "last_month"
    assert context_of(dora, f"range=last_month&{OCTOBER[:-1]}0")["preset"] is None


@pytest.mark.parametrize("name", ["", "x" * 65])
def test_a_view_without_a_fitting_name_is_refused_with_the_remedy(costs: Office, name: str) -> None:
    answer = client_of(costs.cast.dora).post(f"{PAGE}?{OCTOBER}", {"name": name}, follow=True)

    assert "Give the view a name of 1 to 64 characters." in answer.content.decode()
    assert not CostView.objects.exists()


def test_there_is_an_end_to_views(costs: Office) -> None:
    CostView.objects.bulk_create(
        CostView(person=costs.cast.dora, name=str(n), query="", created_at=AT)
        for n in range(VIEWS_MAX)
    )
    dora = client_of(costs.cast.dora)

    answer = dora.post(f"{PAGE}?{OCTOBER}", {"name": "one more"}, follow=True)
    dora.post(f"{PAGE}?{OCTOBER}", {"name": "7"})

    assert "Delete a view first" in answer.content.decode()
    assert CostView.objects.get(name="7").query == f"{OCTOBER}&group_by=organization"
    assert CostView.objects.count() == VIEWS_MAX


def test_the_page_of_hundreds_of_organizations_is_small_and_asks_little(costs: Office) -> None:
    organizations = Organization.objects.bulk_create(
        new_organization(f"tenant-{n:03}-with-a-long-name") for n in range(EVERYBODY)
    )
    projects = Project.objects.bulk_create(new_project(one, "p") for one in organizations)
    DailyCost.objects.bulk_create(
        daily(project, date(2026, 10, day), size=size)
        for project in projects
        for day in (1, 15)
        for size in ("small", "large")
    )
    client = client_of(costs.cast.dora)
    client.get(PAGE)

    with CaptureQueriesContext(connection) as statements:
        answer = client.get(f"{PAGE}?{OCTOBER}&group_by=project&then_by=size")

    assert len(statements) <= STATEMENTS_MAX
    assert len(answer.content) <= BYTES_MAX
    assert answer.context["more"] == 2 * EVERYBODY + 3 - 100


@pytest.mark.parametrize("name", ["alice", "bob", "mallory"])
def test_a_role_of_one_organization_does_not_open_the_page(costs: Office, name: str) -> None:
    assert client_of(getattr(costs.cast, name)).get(PAGE).status_code == 403

"""Lists stay usable however long they are: filters, counts and page numbers."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tenants.admin import lists
from tenants.domain.actors import system_actor
from tenants.models import Organization
from tenants.services.audit import record
from tests.support.builders import AT, make_cluster, make_organization
from tests.support.cast import make_cast
from tests.support.metering.alike import hour_of, stray
from tests.support.metering.seen import HOUR

PROJECTS = "/admin/tenants/project/"
AUDIT = "/admin/tenants/auditentry/"


@pytest.fixture
def client(db: None) -> Client:  # noqa: ARG001 - It is the transaction.
    people = make_cast()
    User.objects.update(is_staff=True)
    signed_in = Client()
    signed_in.force_login(people.frank)
    return signed_in


def rows_of(client: Client, address: str, **query: str) -> Any:  # noqa: ANN401 - Of any model.
    return client.get(address, query).context["cl"]


def options_of(page: str, name: str) -> list[str]:
    (box,) = re.findall(rf'<select name="{name}".*?</select>', page, re.DOTALL)
    return [text.strip() for text in re.findall(r"<option[^>]*>(.*?)</option>", box)]


def test_many_organizations_are_selected_from_a_box_and_few_are_links(client: Client) -> None:
    few = client.get(PROJECTS).content.decode()
    for number in range(lists.LINKS_MAX):
        make_organization(f"tenant-{number}")
    acme = Organization.objects.get(slug="acme")

    many = client.get(PROJECTS, {"organization__id__exact": str(acme.pk), "q": "llm"})

    assert 'name="organization__id__exact"' not in few
    page = many.content.decode()
    options = options_of(page, "organization__id__exact")
    assert (options[0], "Acme" in options, len(options)) == ("All", True, lists.LINKS_MAX + 3)
    assert re.search(rf'<option value="{acme.pk}"\s+selected>Acme</option>', page)
    assert '<input type="hidden" name="q" value="llm">' in page
    assert [row.slug for row in many.context["cl"].result_list] == ["llm"]


def test_a_list_is_called_by_what_it_lists(client: Client) -> None:
    page = client.get(PROJECTS).content.decode()

    assert re.search(r"<title>\s*Projects\b", page)


def test_all_of_a_box_shows_all_rows(client: Client) -> None:
    everything = rows_of(client, PROJECTS).result_count

    shown = rows_of(client, PROJECTS, organization__id__exact="")

    assert (shown.result_count, everything > 1) == (everything, True)


def test_exceptions_are_of_an_organization_selected_by_name(client: Client) -> None:
    stray(hour_of(make_cluster("hopper", metered_from=HOUR), 0), "pod-1")
    for number in range(lists.LINKS_MAX):
        make_organization(f"tenant-{number}")

    page = client.get("/admin/metering/meteringexception/", {"organization": "acme"})

    assert "Acme" in options_of(page.content.decode(), "organization")
    assert re.search(r'<option value="acme"\s+selected>', page.content.decode())


def test_a_column_is_filtered_by_the_values_of_the_newest_rows(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "NEWEST_ROWS", 1)
    for action in ("tenants:one:add", "tenants:two:add", "tenants:three:add"):
        record(actor=system_actor("test"), at=AT, action=action, object_kind="thing", object_id="1")

    page = client.get(AUDIT, {"action": "tenants:one:add"})

    (spec,) = [s for s in page.context["cl"].filter_specs if s.field_path == "action"]
    shown = [choice["display"] for choice in spec.choices(page.context["cl"])]
    assert shown == ["All", "tenants:one:add", "tenants:three:add"]
    assert [row.action for row in page.context["cl"].result_list] == ["tenants:one:add"]


def test_values_that_are_known_are_offered_without_a_look_at_the_rows(client: Client) -> None:
    page = client.get("/admin/billing/charge/", {"size": "medium"})

    (spec,) = [s for s in page.context["cl"].filter_specs if s.field_path == "size"]
    shown = [(one["display"], one["selected"]) for one in spec.choices(page.context["cl"])]
    assert shown == [("All", False), ("small", False), ("medium", True), ("large", False)]
    assert page.context["cl"].result_count == 0


def test_a_long_list_is_counted_up_to_a_limit_and_says_so(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        make_organization(f"tenant-{number}")
    monkeypatch.setattr(lists, "COUNTED_MAX", 22)

    page = client.get("/admin/tenants/organization/")

    assert (page.context["cl"].result_count, page.context["cl"].paginator.num_pages) == (22, 2)
    assert "the first 22 organizations; filter for others" in page.content.decode()
    assert "22 results" not in page.content.decode()
    assert len(rows_of(client, "/admin/tenants/organization/", p="2").result_list) == 2

"""The page of exceptions begins with what is alike, in one row, and leads to each of them."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from metering.domain.corrections.exceptions import REMEDIES, UNKNOWN_RESOURCE_REMEDY, ExceptionKind
from tenants.models import Cluster
from tests.support.builders import make_cluster
from tests.support.cast import make_cast
from tests.support.metering.alike import allocated, excepted, hour_of, percented, stray
from tests.support.metering.seen import HOUR
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

LIST = "/admin/metering/meteringexception/"


@shared_rows
def cluster() -> Cluster:
    return make_cluster(name="Hopper (H100)", metered_from=HOUR)


@pytest.fixture
def client() -> Client:
    """Frank, who looks after the platform."""
    frank = make_cast().frank
    User.objects.update(is_staff=True)
    signed_in = Client()
    signed_in.force_login(frank)
    return signed_in


def text_of(html: str) -> str:
    """Return the words of a page, one space between any two."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def groups_of(client: Client) -> tuple[str, list[str]]:
    """Return the words of the first table and where its links lead."""
    page = client.get(LIST).content.decode()
    begin = page.index("Open incidents")
    part = page[begin : page.index("One by one")]
    links = re.findall(r'href="([^"]*)"', part)
    return text_of(part), [link.replace("&amp;", "&") for link in links]


def rows_of(client: Client, link: str) -> list[str]:
    """Return which exceptions a link leaves in the list."""
    page = client.get(link).content.decode()
    return sorted(re.findall(r'name="_selected_action" value="(\d+)"', page))


def test_a_purged_namespace_is_one_row_with_its_remedy(client: Client, cluster: Cluster) -> None:
    allocated(cluster, "a", "large")
    held = [stray(hour_of(cluster, number), "a") for number in range(4)]
    stray(hour_of(cluster, 0), "b", namespace="other")

    words, links = groups_of(client)

    assert words == (
        "Open incidents Cause About How many Held unit-hours Hours (UTC) "
        "Unbound namespace Hopper (H100) namespace stray 4 of 1 pod Large 4.00 "
        "not known: no price applies 2026-10-05 13:00 to 2026-10-05 16:00 4 hours "
        f"{REMEDIES[ExceptionKind.UNBOUND_NAMESPACE]} Settle it "
        "Unbound namespace Hopper (H100) namespace other 1 of 1 pod Size unknown 1.00 "
        "not known: no price applies 2026-10-05 13:00 "
        f"{REMEDIES[ExceptionKind.UNBOUND_NAMESPACE]} Settle it"
    )
    assert rows_of(client, links[0]) == sorted(str(one.pk) for one in held)
    held[0].refresh_from_db()
    assert links[1] == f"{LIST}incidents/{held[0].incident}/"
    assert client.get(links[1]).status_code == 200


def test_a_percentage_of_memory_is_not_said_to_be_hours_of_gpus(
    client: Client, cluster: Cluster
) -> None:
    one, two = percented(hour_of(cluster, 0), "a"), percented(hour_of(cluster, 1), "a")

    words, links = groups_of(client)
    rows = client.get(links[0]).content.decode()

    assert (
        "Unknown device No rule knows the resource. Hopper (H100) namespace labeling "
        "device nvidia_com_gpumem_percentage 2 of 1 pod 2.00 h of pods, not in GPUs"
    ) in words
    assert words.endswith(f"{UNKNOWN_RESOURCE_REMEDY} Settle it")
    assert "50.00" not in words
    assert rows_of(client, links[0]) == sorted([str(one.pk), str(two.pk)])
    assert rows.count("50 for 1.00 h, not in GPUs") == 2
    remedy = text_of(client.get(f"{LIST}{one.pk}/remedy/").content.decode())
    assert "Held back 50 for 1.00 h, not in GPUs" in remedy


def test_what_stops_an_hour_says_so(client: Client, cluster: Cluster) -> None:
    blind = excepted(hour_of(cluster, 0), "low_coverage")
    node = excepted(hour_of(cluster, 0), "over_capacity", subject="node-1 nvidia_com_gpu")

    words, links = groups_of(client)

    assert "Low coverage keeps its hours from being sealed Hopper (H100) the whole hour 1" in words
    assert "Over capacity keeps its hours from being sealed Hopper (H100) node node-1" in words
    assert [rows_of(client, links[0]), rows_of(client, links[2])] == [
        [str(blind.pk)],
        [str(node.pk)],
    ]


def test_a_list_of_some_leads_back_to_all_causes(client: Client, cluster: Cluster) -> None:
    stray(hour_of(cluster, 0), "a")

    page = client.get(f"{LIST}?state__exact=open").content.decode()

    assert "Open incidents" not in page
    assert "All incidents" in page


def test_an_empty_queue_shows_no_empty_table(client: Client) -> None:
    page = client.get(LIST).content.decode()

    assert "Open incidents" not in page
    assert "All incidents" not in page


def test_ever_more_causes_cost_no_more_statements(client: Client, cluster: Cluster) -> None:
    def statements() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(LIST)
        return len(queries)

    stray(hour_of(cluster, 0), "a")
    client.get(LIST)
    few = statements()
    for number in range(20):
        stray(hour_of(cluster, 0), f"u-{number}", namespace=f"n-{number}")

    assert statements() == few


def test_more_causes_than_anybody_reads_are_cut(
    client: Client, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metering.admin.incidents.INCIDENTS_MAX", 2)
    for number in range(3):
        stray(hour_of(cluster, 0), f"u-{number}", namespace=f"n-{number}")

    page = text_of(client.get(LIST).content.decode())

    assert "The first 2 are shown; the list below has all." in page
    assert "namespace n-1" in page
    assert "namespace n-2" not in page

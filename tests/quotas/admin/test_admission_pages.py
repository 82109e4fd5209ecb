"""Pages of admission: what counts now comes first, and words say how it came in."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client, override_settings
from pytest_django import DjangoAssertNumQueries

from quotas.models import ReleaseReason, Reservation
from tenants.models import Cluster
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.fair_use import HOUR, reserve
from tests.support.shared_rows import shared_rows

PAGE = "/admin/quotas/reservation/"


@pytest.fixture(autouse=True)
def without_menu() -> Iterator[None]:
    with override_settings(UNFOLD={}):
        yield


@pytest.fixture
def client(cast: Cast) -> Client:
    User.objects.update(is_staff=True)
    made = Client()
    made.force_login(User.objects.get(pk=cast.ann.pk))
    return made


@shared_rows
def hopper(cast: Cast) -> Cluster:
    """Three pods that count, and one that does not any more though it came last."""
    cluster = make_cluster("hopper")
    reserve(cluster, cast.llm, pod_name="holds", admitted_at=AT - 3 * HOUR)
    reserve(cluster, cast.llm, pod_name="waits", state="reserved", admitted_at=AT - 2 * HOUR)
    reserve(cluster, cast.llm, pod_name="found", origin="found", units=2, is_burst=True)
    reserve(
        cluster,
        cast.llm,
        pod_name="ended",
        state="released",
        release_reason="ended",
        admitted_at=AT,
    )
    return cluster


def reported(client: Client, path: str = "") -> str:
    """Return what a page says: no tags, and each run of spaces as one."""
    answer = client.get(PAGE + path)
    assert answer.status_code == 200
    return re.sub(r"(<[^>]*>|\s)+", " ", answer.content.decode())


def listed(client: Client, query: str = "") -> list[str]:
    answer = client.get(PAGE + query)
    assert answer.status_code == 200
    return [row.pod_name for row in answer.context["cl"].result_list]


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("query", "pods"),
    [
        ("", ["found", "waits", "holds"]),
        ("?state=live", ["found", "waits", "holds"]),
        ("?state=held", ["found", "holds"]),
        ("?state=reserved", ["waits"]),
        ("?state=released", ["ended"]),
        ("?state=all", ["ended", "found", "waits", "holds"]),
        ("?state=nonsense", []),
        ("?origin__exact=found", ["found"]),
        ("?_facets=True", ["found", "waits", "holds"]),
    ],
)
def test_what_counts_now_is_listed_unless_something_else_is_chosen(
    client: Client, query: str, pods: list[str]
) -> None:
    assert listed(client, query) == pods


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("query", "chosen"),
    [("", "Counts now"), ("?state=released", "Released"), ("?state=all", "All")],
)
def test_the_filter_marks_what_is_chosen(client: Client, query: str, chosen: str) -> None:
    (states,) = [
        spec
        for spec in client.get(PAGE + query).context["cl"].filter_specs
        if spec.title == "state"
    ]
    choices = list(states.choices(client.get(PAGE + query).context["cl"]))

    assert [one["display"] for one in choices] == [
        "Counts now",
        "Reserved",
        "Held",
        "Released",
        "All",
    ]
    assert [one["display"] for one in choices if one["selected"]] == [chosen]
    assert choices[0]["query_string"] == "?state=live"


@pytest.mark.usefixtures("hopper")
def test_words_are_right_for_what_was_admitted_and_what_was_found(client: Client) -> None:
    page = reported(client)

    for words in (
        "Counted since",
        "How it came in",
        "found running",
        "admitted",
        "found llm on hopper",
        "2 large, burst",
        "2026-11-02 08:00 UTC",
        "released ones are listed only under Filters, state.",
    ):
        assert words in page, words
    assert "Admitted at" not in page
    assert "Show all" not in page


@pytest.mark.usefixtures("hopper")
def test_the_page_of_a_row_says_the_same(client: Client) -> None:
    found = Reservation.objects.get(pod_name="found")
    ended = Reservation.objects.get(pod_name="ended")

    page, after = (reported(client, f"{row.pk}/change/") for row in (found, ended))

    assert "How it came in found running" in page
    assert "Counted since 2026-11-02 08:00 UTC" in page
    assert "Counts for GPU models H100" in page
    assert "Released because -" in page
    assert "Released because it ended" in after
    assert "Admitted at" not in page


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("ended", "it ended"),
        ("expired", "it was never seen"),
        ("gone", "it went before it ran"),
        ("handed_over", "its device claim counts"),
        ("unbound", "its namespace has no project"),
        ("unsized", "its size is not known"),
    ],
)
def test_every_reason_of_a_release_has_words(
    client: Client, cast: Cast, reason: str, words: str
) -> None:
    reserve(
        make_cluster(), cast.llm, state="released", release_reason=reason, size="", model_groups=[]
    )

    page = reported(client, "?state=all")

    assert reason in ReleaseReason.values
    assert f" {words} " in page
    assert "1 of unknown size" in page


def test_the_list_costs_no_statement_a_row(
    client: Client, cast: Cast, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(6):
        reserve(make_cluster(f"cluster-{number}"), cast.llm)

    with django_assert_max_num_queries(12):
        assert len(listed(client)) == 6


@pytest.mark.usefixtures("hopper")
def test_filters_are_headed_by_words_and_not_by_columns(client: Client) -> None:
    page = client.get(PAGE).content.decode()

    assert re.findall(r"<h3[^>]*>\s*(.*?)\s*</h3>", page) == [
        "State",
        "Origin",
        "Size",
        "Burst",
        "Organization",
    ]


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(("chosen", "pods"), [("1", ["found"]), ("0", ["waits", "holds"])])
def test_burst_is_chosen_by_its_filter(client: Client, chosen: str, pods: list[str]) -> None:
    assert listed(client, f"?is_burst__exact={chosen}") == pods
    page = client.get(f"{PAGE}?is_burst__exact={chosen}").content.decode()
    words = {"1": "Yes", "0": "No"}[chosen]
    (choice,) = re.findall(rf'<a href="([^"]*)"[^>]*>{words}</a>', page)
    assert choice == f"?is_burst__exact={chosen}"
    assert re.findall(r'aria-current="true"[^>]*>([^<]*)<', page) == [
        "Counts now",
        "All",
        "All",
        words,
        "All",
    ]

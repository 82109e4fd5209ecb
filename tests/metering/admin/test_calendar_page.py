"""The calendar of hours, as a person sees it."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from metering.models import MeteringException, MeteringWindow
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.alike import excepted, hour_of
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, ticks, worker
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db
PAGE = "/admin/metering/meteringwindow/calendar/"
Page = Callable[..., str]
MARKED = re.compile(r'<td class="[^"]* tone-new"')


@shared_rows
def cast() -> Cast:
    """Everybody, after a whole hour with a stray pod and one that waits for better answers."""
    people = make_cast()
    User.objects.update(is_staff=True)
    bind(make_cluster(metered_from=HOUR), "llm", people.llm)
    second = HOUR + timedelta(hours=1)
    metering = worker(
        observation(pod("a", namespace="llm"), pod("b", namespace="stray")),
        observation(
            start_at=second,
            end_at=second + timedelta(hours=1),
            ticks=ticks(begin=1800, start_at=second),
        ),
    )
    meter_due(worker=metering, at=moment(2 * 3600 + LATER))
    return people


@pytest.fixture
def page(cast: Cast) -> Page:
    """Open the calendar as the platform's administrator."""
    client = Client()
    client.force_login(cast.frank)

    def open_page(**query: str) -> str:
        answer = client.get(PAGE, query)
        assert answer.status_code == 200
        return answer.content.decode()

    return open_page


def test_an_hour_is_a_coloured_link_that_says_what_it_is(page: Page) -> None:
    text = page(month="2026-10")
    sealed = MeteringWindow.objects.get(start_at=HOUR)

    assert f'href="../{sealed.pk}/change/"' in text
    assert (
        "13:00 UTC: sealed, seen 100.0\N{NO-BREAK SPACE}%, by stub, records: 1, "
        "open exceptions: 1, incidents that begin: 1" in text
    )
    assert text.count('class="tone tone-whole tone-new"') == 1
    assert text.count('class="tone tone-waiting') >= 1
    assert "2 open incidents begin in this month" in text


def test_only_the_hour_in_which_an_incident_begins_is_marked(page: Page) -> None:
    cluster = MeteringWindow.objects.get(start_at=HOUR).cluster
    stray = MeteringException.objects.get(kind="unbound_namespace")
    for number in (30, 31):
        excepted(
            hour_of(cluster, number),
            subject=stray.subject,
            namespace=stray.namespace,
            cause=stray.details["cause"],
        )
    begun = len(MARKED.findall(page(month="2026-10")))
    MeteringException.objects.filter(pk=stray.pk).update(state="resolved")
    text = page(month="2026-10")

    assert (begun, len(MARKED.findall(text))) == (2, 2)
    assert "19:00 UTC: open, nothing seen, open exceptions: 1, incidents that begin: 1" in text
    assert '20:00 UTC: open, nothing seen, open exceptions: 1"' in text


def test_a_month_of_many_clusters_stays_small_and_leads_to_each(page: Page) -> None:
    for slug in ("ampere", "blackwell", "turing"):
        MeteringWindow.objects.bulk_create(
            MeteringWindow(
                cluster=cluster,
                start_at=HOUR.replace(day=1, hour=0) + timedelta(hours=number),
                not_before=HOUR,
                sources=["kubernetes", "prometheus"],
                state="quarantined",
            )
            for cluster in [make_cluster(slug, name=slug.capitalize(), metered_from=HOUR)]
            for number in range(744)
        )

    text, turing = page(month="2026-10"), page(month="2026-10", cluster="turing")

    assert text.count("<table") == 2
    assert len(text.encode()) < 300 * 1024
    assert 'href="?month=2026-10&amp;cluster=turing">Turing</a>' in text
    assert "(744 waiting, 0 new)" in text
    assert turing.count("<table") == 1
    assert 'href="?month=2026-09&amp;cluster=turing"' in turing


def test_months_lead_to_one_another_and_an_empty_one_says_so(page: Page) -> None:
    text = page(month="2026-09")

    assert "September 2026" in text
    assert 'href="?month=2026-08"' in text
    assert 'href="?month=2026-10"' in text
    assert "No cluster was metered in this month." in text


def test_a_month_that_is_none_shows_the_present_one(page: Page) -> None:
    assert "No hours" in page(month="<script>alert(1)</script>")


def test_the_calendar_is_for_the_platform(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.carol)

    assert client.get(PAGE).status_code in {302, 403}


def test_more_hours_ask_no_more_questions(page: Page) -> None:
    with CaptureQueriesContext(connection) as few:
        page(month="2026-10")
    cluster = MeteringWindow.objects.get(start_at=HOUR).cluster
    MeteringWindow.objects.bulk_create(
        MeteringWindow(
            cluster=cluster,
            start_at=HOUR + timedelta(hours=number),
            not_before=HOUR + timedelta(hours=number + 1),
        )
        for number in range(2, 200)
    )

    with CaptureQueriesContext(connection) as many:
        page(month="2026-10")

    assert len(many) == len(few)

"""The calendar of hours, as a person sees it."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from metering.models import MeteringWindow
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, ticks, worker

pytestmark = pytest.mark.django_db
PAGE = "/admin/metering/meteringwindow/calendar/"
Page = Callable[..., str]


@pytest.fixture
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

    assert f'href="/admin/metering/meteringwindow/{sealed.pk}/change/"' in text
    assert (
        "2026-10-05 13:00 UTC: sealed, seen 100.0\N{NO-BREAK SPACE}%, by stub, records: 1, "
        "open exceptions: 1" in text
    )
    assert text.count('class="tone tone-whole tone-wanting"') == 1
    assert text.count('class="tone tone-waiting') >= 1
    assert "2 exceptions are open" in text


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

"""The hours that are metered of a cluster: previewed, moved back, ended and begun again."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings
from rest_framework.test import APIClient

from billing.models import BillingPeriod
from billing.selectors.closing import readiness_of
from billing.services.periods import open_current_periods
from metering import tasks
from metering.domain.collection.windows import window_containing
from metering.models import MeteringWindow
from metering.protocols import ClusterTarget, Observation
from tenants.domain.actors import system_actor
from tenants.models import AuditEntry, Cluster
from tests.metering.test_tasks import EmptySource
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.seen import ReplayedSource
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db

NOW = datetime.now(tz=UTC)
BEGIN = window_containing(NOW) - timedelta(hours=30)
ACTOR = system_actor("test")


class ShortMemory(ReplayedSource):
    """A source that has no samples from before 8 hours after BEGIN."""

    def observe(
        self, target: ClusterTarget, *, start_at: datetime, end_at: datetime, as_of: datetime
    ) -> Observation:
        """Return no scrapes of older hours."""
        found = super().observe(target, start_at=start_at, end_at=end_at, as_of=as_of)
        return found if start_at >= BEGIN + timedelta(hours=8) else replace(found, ticks=())


@dataclass
class Gone(ReplayedSource):
    """A source that has gone for good."""

    down: str = "unreachable"


@pytest.fixture(autouse=True)
def source() -> Iterator[None]:
    with use(EmptySource):
        yield


def use(source: type[ReplayedSource]) -> override_settings:
    """Let the settings name a source."""
    tasks.process_source.cache_clear()
    backend = f"{source.__module__}.{source.__qualname__}"
    return override_settings(USAGE_SOURCE={"BACKEND": backend, "OPTIONS": {}})


@shared_rows
def cast() -> Cast:
    return make_cast()


@pytest.fixture
def frank(cast: Cast) -> APIClient:
    client = APIClient()
    client.force_login(cast.frank)
    return client


@pytest.fixture
def cluster(cast: Cast) -> Cluster:
    made = make_cluster(
        metered_from=BEGIN + timedelta(hours=20), prometheus_url="http://127.0.0.1:9"
    )
    bind(made, "llm", cast.llm)
    return made


def preview(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("preview_metering", "hopper", *arguments, stdout=out)
    return out.getvalue().splitlines()


def change(client: APIClient, cluster: Cluster, **fields: object) -> int:
    version = Cluster.objects.get(pk=cluster.pk).version
    answer = client.patch(
        f"/api/v1/clusters/{cluster.pk}/",
        fields,
        format="json",
        headers={"If-Match": f'"{version}"'},
    )
    return answer.status_code


def hours() -> list[datetime]:
    return sorted(MeteringWindow.objects.values_list("start_at", flat=True))


def test_the_past_is_previewed_and_then_metered(frank: APIClient, cluster: Cluster) -> None:
    call_command("tick", stdout=StringIO())
    newest = hours()[-1]
    assert hours()[0] == BEGIN + timedelta(hours=20)

    with use(ShortMemory):
        reported = preview("--from", f"{BEGIN:%Y-%m-%dT%H:%MZ}")

    assert reported[0].startswith(f"Opened: 20 hours, {BEGIN:%Y-%m-%dT%H:%MZ} to ")
    assert reported[1].startswith(
        f"Prometheus: samples from {BEGIN + timedelta(hours=8):%Y-%m-%dT%H:%MZ} on, 12 of these"
    )
    assert reported[1].endswith("8 will need a decision.")
    assert reported[2:] == [
        "Waived: 0 hours that are not metered yet.",
        "Kept: 0 hours outside that are metered already and stay billed.",
    ]

    assert change(frank, cluster, metered_from=BEGIN.isoformat()) == 200
    call_command("tick", stdout=StringIO())

    assert hours()[0] == BEGIN
    assert (
        len([hour for hour in hours() if hour <= newest])
        == (newest - BEGIN) // timedelta(hours=1) + 1
    )
    assert change(frank, cluster, metered_from=(BEGIN + timedelta(hours=1)).isoformat()) == 422


def test_closed_months_are_named(cluster: Cluster) -> None:
    open_current_periods(actor=ACTOR, at=NOW)
    period = BillingPeriod.objects.get(organization__slug="acme")
    BillingPeriod.objects.filter(pk=period.pk).update(state="closed", closed_at=NOW)
    first = max(BEGIN, period.hours.lower)

    reported = preview("--from", f"{BEGIN:%Y-%m-%dT%H:%MZ}")

    assert cluster.slug
    [line] = [line for line in reported if line.startswith("Closed: ")]
    assert line.startswith(f"Closed: acme {period.label}, ")
    assert first


def test_a_cluster_that_is_gone_is_metered_until_an_hour_and_its_month_is_ready(
    frank: APIClient, cluster: Cluster
) -> None:
    until = BEGIN + timedelta(hours=22)
    with use(Gone):
        call_command("tick", stdout=StringIO())
        opened = len(hours())
        assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"open"}
        reported = preview("--until", f"{until:%Y-%m-%dT%H:%MZ}")
        assert reported[1] == f"Waived: {opened - 2} hours that are not metered yet."

        assert change(frank, cluster, metered_until=until.isoformat()) == 200
        call_command("tick", stdout=StringIO())

    states = dict(MeteringWindow.objects.values_list("start_at", "state"))
    assert {state for hour, state in states.items() if hour >= until} == {"sealed"}
    assert {state for hour, state in states.items() if hour < until} == {"open"}
    entries = AuditEntry.objects.filter(action="metering:window:waive")
    assert entries.count() == opened - 2
    assert entries[0].facts["note"] == "The cluster is no longer metered at this hour."
    open_current_periods(actor=ACTOR, at=NOW)
    period = BillingPeriod.objects.get(organization__slug="acme")
    before = (min(until, period.hours.upper) - max(BEGIN, period.hours.lower)) // timedelta(hours=1)
    assert readiness_of(period, at=period.hours.upper).unsealed_windows == max(0, min(2, before))


def test_metering_goes_on_where_the_end_is_taken_away(frank: APIClient, cluster: Cluster) -> None:
    until = BEGIN + timedelta(hours=22)
    assert change(frank, cluster, metered_until=until.isoformat()) == 200
    call_command("tick", stdout=StringIO())
    assert hours() == [BEGIN + timedelta(hours=20), BEGIN + timedelta(hours=21)]
    missing = int(preview("--until", "none")[0].split()[1])

    assert change(frank, cluster, metered_until=None) == 200
    call_command("tick", stdout=StringIO())

    assert len(hours()) == 2 + missing
    assert set(MeteringWindow.objects.values_list("state", flat=True)) == {"sealed"}


def test_a_wrong_end_is_refused(frank: APIClient, cluster: Cluster) -> None:
    for until in (BEGIN, BEGIN + timedelta(hours=22, minutes=1)):
        assert change(frank, cluster, metered_until=until.isoformat()) == 422
    with pytest.raises(CommandError, match="not the start of a UTC hour"):
        preview("--until", "2026-10-01T00:30Z")
    first, end = (f"{BEGIN + timedelta(hours=n):%Y-%m-%dT%H:%MZ}" for n in (20, 0))
    with pytest.raises(CommandError) as refused:
        preview("--until", end)
    assert str(refused.value) == (
        f"--until: {end} is not after the first metered hour, {first}. Name a later hour, or "
        "`none` for no end."
    )


def test_a_later_first_hour_is_refused(cluster: Cluster) -> None:
    with pytest.raises(CommandError) as refused:
        preview("--from", f"{cluster.metered_from + timedelta(hours=1):%Y-%m-%dT%H:%MZ}")

    assert str(refused.value) == (
        f"--from: hopper is metered from {cluster.metered_from:%Y-%m-%dT%H:%MZ}, and that may only "
        "become earlier. Name an earlier hour; to leave out later hours, waive them."
    )


def test_a_source_that_is_away_is_named(cluster: Cluster) -> None:
    with use(Gone):
        reported = preview("--from", f"{BEGIN:%Y-%m-%dT%H:%MZ}")

    assert cluster.slug
    opened = int(reported[0].split()[1])
    assert opened >= 20
    assert reported[1] == (
        f"Prometheus: not known how many of these hours it has samples of, up to {opened} will "
        "need a decision. Prometheus did not answer. Try again when it answers."
    )

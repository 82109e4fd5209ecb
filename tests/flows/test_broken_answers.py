"""Answers that cannot be believed: asked for again, reported, and never taken for zero."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.corrections.exceptions import REMEDIES, ExceptionKind
from metering.models import MeteringWindow, UsageRecord
from metering.protocols import Observation
from metering.services.collection.sweeping import CollectionSweep
from tenants.models import Cluster
from tests.support.flows.site import (
    API,
    DAY,
    DUE,
    MINUTE,
    Site,
    nothing_written,
)
from tests.support.metering import prometheus as canned
from tests.support.metering.prometheus import Reply, World, serving, sound_world
from tests.support.metering.seen import (
    HOUR,
    ReplayedSource,
    observation,
    pod,
    ticks,
)


def rows_of(world: World) -> bytes:
    assert isinstance(world.observations, list)
    return json.dumps(
        canned.answer(world.observations, "matrix", warnings=["a store is away"])
    ).encode()


BROKEN: dict[str, tuple[Callable[[], World], str]] = {
    "warnings": (lambda: World(observations=Reply(rows_of(sound_world()))), "partial_response"),
    "half an answer": (lambda: World(observations=Reply(b'{"status":"succ')), "truncated"),
    "a server error": (lambda: World(observations=Reply(b"secret words", 500)), "server_error"),
    "a login page": (lambda: World(observations=Reply(b"<html>Sign in")), "truncated"),
    "half of it missing": (
        lambda: replace(sound_world(), facts=Reply(b"", 503)),
        "server_error",
    ),
}


@pytest.fixture
def scraped(priced: Site) -> Iterator[tuple[Site, World]]:
    """The site, whose cluster has a Prometheus of its own on a real socket."""
    world = World()
    with serving(world) as url:
        Cluster.objects.filter(pk=priced.hopper.pk).update(
            prometheus_url=url, scrape_interval_seconds=canned.SCRAPE, metered_from=canned.HOUR
        )
        yield priced, world


def become(world: World, other: World) -> None:
    """Let the server answer as another world from now on."""
    world.observations, world.facts = other.observations, other.facts
    world.devices, world.details = other.devices, other.details


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_in_doubt_is_asked_for_again_and_writes_nothing(
    scraped: tuple[Site, World], name: str
) -> None:
    site, world = scraped
    broken, reason = BROKEN[name]
    become(world, broken())
    at = canned.HOUR + timedelta(hours=1, minutes=20)
    source = PrometheusUsageSource()

    assert site.run(source, at) == CollectionSweep(opened=1, retried=1)

    (window,) = site.listed("metering-windows")
    assert (window["state"], window["failures"], window["sealed_at"]) == ("open", 1, None)
    assert window["last_error"]
    assert "secret" not in window["last_error"]
    (reported,) = site.listed("metering-exceptions")
    assert (reported["kind"], reported["state"]) == ("source_unavailable", "open")
    assert reported["details"] == {"reason": reason}
    assert reported["remedy"] == REMEDIES[ExceptionKind.SOURCE_UNAVAILABLE]
    assert nothing_written()

    become(world, sound_world())
    assert site.run(source, at + MINUTE) == CollectionSweep(sealed=1)

    assert site.billed() == {"10:00": 3600}
    (reported,) = site.listed("metering-exceptions")
    assert reported["state"] == "resolved"


def test_a_prometheus_that_is_down_for_days_is_waited_for(priced: Site) -> None:
    end_at = HOUR + timedelta(hours=1)
    ended = pod(units=2, finished_at=end_at, terminal_seen_at=end_at, last_seen_at=end_at)
    source = ReplayedSource({HOUR: observation(ended)}, down="unreachable")
    at = DUE
    for failures in range(1, 10):
        assert priced.run(source, at).retried >= 1
        window = MeteringWindow.objects.get(start_at=HOUR)
        assert (window.state, window.failures) == ("open", failures)
        at = window.not_before
    assert nothing_written()
    assert at > DUE + timedelta(hours=1)

    source.down = ""
    priced.run(source, at)

    assert priced.billed() == {"13:00": 7200}
    states = {row["state"] for row in priced.listed("metering-exceptions")}
    assert states == {"resolved"}


# ------------------------------------------------- an outage of the scrapes


def blind(**fields: Any) -> Observation:  # noqa: ANN401 - Fields of the observation.
    """Return an answer that is empty because nothing was scraped."""
    return observation(ticks=(), nodes=(), **fields)


def test_an_empty_answer_during_an_outage_is_not_zero(priced: Site) -> None:
    source = ReplayedSource({HOUR: blind()})

    assert priced.run(source, DUE) == CollectionSweep(opened=1, retried=1)

    (window,) = priced.listed("metering-windows")
    assert (window["state"], window["coverage"], window["record_count"]) == ("open", "0.00000", 0)
    (reported,) = priced.listed("metering-exceptions")
    assert (reported["kind"], reported["state"]) == ("low_coverage", "open")
    assert reported["summary"].startswith("3600 s of this hour were not observed: ")
    assert reported["summary"].endswith("No scrape took place after the hour.")
    assert reported["remedy"] == REMEDIES[ExceptionKind.LOW_COVERAGE]
    assert nothing_written()

    source.seen[HOUR] = observation(pod(units=2))
    assert priced.run(source, DUE + MINUTE) == CollectionSweep(sealed=1)

    assert priced.billed() == {"13:00": 7200}
    (reported,) = priced.listed("metering-exceptions")
    assert reported["state"] == "resolved"


@pytest.mark.soak
def test_an_hour_nobody_saw_becomes_a_persons_decision(priced: Site) -> None:
    half = observation(pod(units=2), ticks=ticks(begin=1800))
    source = ReplayedSource({HOUR: half})
    late = DUE + DAY

    assert priced.run(source, late).retried == 1
    assert priced.run(source, late + DAY).retried == 0

    window = MeteringWindow.objects.get(start_at=HOUR)
    assert window.state == "gap"
    assert not UsageRecord.objects.exists()
    path = f"metering-windows/{window.pk}/decide"
    refused = priced.client_for(priced.cast.frank).post(
        f"{API}/{path}/", {"decision": "accept", "note": "  "}
    )
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_input")
    window.refresh_from_db()
    assert window.state == "gap"

    decided = priced.post(priced.cast.frank, path, {"decision": "accept", "note": "Seen after."})
    assert (decided["state"], decided["accepts_low_coverage"]) == ("open", True)
    priced.run(source, decided_at(window))

    assert priced.billed() == {"13:00": 7200}


def decided_at(window: MeteringWindow) -> datetime:
    """Return the moment from which the decided window is due: REST has the real clock."""
    window.refresh_from_db()
    return window.not_before


def test_an_hour_that_was_seen_and_empty_is_truly_zero(priced: Site) -> None:
    assert priced.run(ReplayedSource(), DUE) == CollectionSweep(opened=1, sealed=1)

    (capacity,) = priced.listed("capacity-records")
    assert (capacity["billed_unit_seconds"], capacity["idle_unit_seconds"]) == (0, 8 * 3600)
    assert priced.listed("metering-exceptions") == []
    assert priced.billed() == {}

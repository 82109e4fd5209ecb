"""Bad input end to end: told with cause and remedy, never zero, never a guess; then put right."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from billing.models import Charge, PriceBook
from billing.tasks import accrue_pending
from metering.adapters.prometheus import PrometheusUsageSource
from metering.domain.exceptions import REMEDIES, ExceptionKind
from metering.models import CapacityRecord, MeteringWindow, PodAllocation, UsageRecord
from metering.protocols import Observation, PodObservation, UsageSource
from metering.services.sweeping import Sweep, Worker, meter_due
from tenants.models import Cluster
from tests.billing.ledger import assign, make_book, make_price
from tests.builders import bind, make_cluster
from tests.cast import Cast, make_cast
from tests.metering.adapters.prometheus import canned
from tests.metering.adapters.prometheus.canned import Reply, World, serving, sound_world
from tests.metering.seen import (
    ACTOR,
    HOUR,
    LATER,
    ReplayedSource,
    moment,
    node,
    observation,
    pod,
    ticks,
)

API = "/api/v1"
NEXT_HOUR = moment(3600)
DUE, NEXT_DUE = moment(3600 + LATER), moment(2 * 3600 + LATER)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Site:
    """Acme's project LLM has the namespace team-nlp on hopper, and a book to be billed by."""

    cast: Cast
    hopper: Cluster
    book: PriceBook

    def door(self, user: User) -> APIClient:
        """Return a client signed in as somebody."""
        caller = APIClient()
        caller.force_login(user)
        return caller

    def listed(self, path: str) -> list[dict[str, Any]]:
        """Return a list as an auditor, who reads everything, sees it."""
        answer = self.door(self.cast.ann).get(f"{API}/{path}/")
        assert answer.status_code == 200, answer.content
        found: list[dict[str, Any]] = answer.json()["results"]
        return found

    def post(self, user: User, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Return what a POST that must work answers."""
        answer = self.door(user).post(f"{API}/{path}/", body, headers={"Idempotency-Key": path})
        assert answer.status_code in {200, 201}, answer.content
        found: dict[str, Any] = answer.json()
        return found

    def run(self, source: UsageSource, at: datetime) -> Sweep:
        """Meter and accrue whatever is due."""
        sweep = meter_due(worker=Worker(name="w", source=source, actor=ACTOR), at=at)
        accrue_pending(at=at, actor=ACTOR)
        return sweep

    def billed(self) -> dict[str, int]:
        """Return charged unit-seconds by hour of the day, as REST tells them."""
        found: dict[str, int] = {}
        for charge in self.listed("charges"):
            hour = charge["window_start"][11:16]
            found[hour] = found.get(hour, 0) + charge["unit_seconds"]
        return found


@pytest.fixture
def site(db: None) -> Site:  # noqa: ARG001 - It is the transaction.
    cast = make_cast()
    hopper = make_cluster(metered_from=HOUR)
    bind(hopper, "team-nlp", cast.llm)
    book = make_book()
    assign(cast.acme, book)
    make_price(book, size="small")
    return Site(cast, hopper, book)


@pytest.fixture
def priced(site: Site) -> Site:
    for size in ("medium", "large"):
        make_price(site.book, size=size)
    return site


def nothing_written() -> bool:
    tables = (UsageRecord, CapacityRecord, PodAllocation, Charge)
    return not any(table._default_manager.exists() for table in tables)  # noqa: SLF001 - Django's documented model meta.


def next_hour(*pods: PodObservation) -> Observation:
    """Return the hour after HOUR with pods that ran through both."""
    end = NEXT_HOUR + timedelta(hours=1)
    late = tuple(replace(one, last_seen_at=end + timedelta(seconds=LATER)) for one in pods)
    return observation(
        *late, start_at=NEXT_HOUR, end_at=end, ticks=ticks(start_at=NEXT_HOUR), nodes=(node(),)
    )


# ------------------------------------------------- pods that cannot be sized or attributed


def bind_stray(site: Site) -> None:
    body = {
        "cluster": str(site.hopper.pk),
        "namespace": "stray",
        "project": str(site.cast.llm.pk),
        "valid_from": HOUR.isoformat(),
    }
    site.post(site.cast.frank, "namespace-bindings", body)


def nobody_acts(_: Site) -> None:
    """The cause goes away by itself, such as a node that gets its labels."""


ODD = "nvidia_com_mig_9g_99gb"
HELD: dict[str, tuple[ExceptionKind, PodObservation, PodObservation, Callable[[Site], None]]] = {
    "an unknown device": (
        ExceptionKind.UNKNOWN_DEVICE,
        pod("odd", ODD, 2),
        pod("odd-again", units=2),
        nobody_acts,
    ),
    "a node that tells nothing": (
        ExceptionKind.UNKNOWN_NODE,
        pod("odd", units=2, node="node-2", labels={}),
        pod("odd-again", units=2),
        nobody_acts,
    ),
    "an unbound namespace": (
        ExceptionKind.UNBOUND_NAMESPACE,
        pod("odd", units=2, namespace="stray"),
        pod("odd", units=2, namespace="stray"),
        bind_stray,
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_cannot_be_billed_is_held_and_told_until_it_can(priced: Site, name: str) -> None:
    kind, odd, better, put_right = HELD[name]
    good = pod("good")
    nodes = (node(allocatable={"nvidia_com_gpu": 8, ODD: 2}), node("node-2", labels={}))
    source = ReplayedSource(
        {HOUR: observation(good, odd, nodes=nodes), NEXT_HOUR: next_hour(good, better)}
    )

    assert priced.run(source, DUE) == Sweep(opened=1, sealed=1)

    (told,) = priced.listed("metering-exceptions")
    assert (told["kind"], told["state"], told["held_unit_seconds"]) == (kind.value, "open", 7200)
    assert told["subject"] == f"odd {odd.requests[0].resource}"
    assert told["summary"]
    assert told["remedy"] == REMEDIES[kind]
    assert priced.billed() == {"13:00": 3600}

    put_right(priced)
    assert priced.run(source, NEXT_DUE) == Sweep(opened=1, sealed=1)

    assert priced.billed() == {"13:00": 3600, "14:00": 3600 + 7200}
    assert [row["window_start"][11:16] for row in priced.listed("metering-exceptions")] == ["13:00"]


def test_a_sealed_hour_keeps_what_it_held_and_says_so(priced: Site) -> None:
    source = ReplayedSource({HOUR: observation(pod("odd", units=2, namespace="stray"))})
    priced.run(source, DUE)
    bind_stray(priced)
    (window,) = priced.listed("metering-windows")
    (told,) = priced.listed("metering-exceptions")
    before = list(CapacityRecord.objects.values())

    frank = priced.door(priced.cast.frank)
    refused = frank.post(f"{API}/metering-windows/{window['id']}/retry/", {"note": "Bound now."})

    assert (refused.status_code, refused.json()["code"]) == (409, "metering_window_sealed")
    assert refused.json()["remedy"]
    assert list(CapacityRecord.objects.values()) == before
    assert priced.billed() == {}
    path = f"metering-exceptions/{told['id']}/resolve"
    resolved = priced.post(priced.cast.frank, path, {"note": "A trial, not billed."})
    assert (resolved["state"], resolved["resolution"]) == ("resolved", "A trial, not billed.")
    assert resolved["held_unit_seconds"] == 7200


# ------------------------------------------------- usage without a price


def set_price(site: Site) -> None:
    body = {
        "price_book": str(site.book.pk),
        "size": "large",
        "unit_price": "2.5000",
        "valid_from": HOUR.isoformat(),
    }
    site.post(site.cast.dora, "prices", body)


def test_usage_without_a_price_waits_for_one_and_is_never_free(site: Site) -> None:
    source = ReplayedSource({HOUR: observation(pod(units=2))})

    assert site.run(source, DUE) == Sweep(opened=1, sealed=1)

    (told,) = site.listed("accrual-exceptions")
    assert (told["code"], told["unit_seconds"]) == ("no_price", 7200)
    assert told["summary"] == (
        "Price book standard has no price for large units of H100/whole at that hour."
    )
    assert told["remedy"].startswith("Set a price for the size and group")
    assert told["resolved_at"] is None
    assert site.billed() == {}
    (period,) = site.listed("billing-periods")
    draft = site.door(site.cast.dora).post(
        f"{API}/invoices/", {"period": period["id"]}, headers={"Idempotency-Key": "early"}
    )
    assert (draft.status_code, draft.json()["code"]) == (409, "period_not_ready")
    assert "accrual_exceptions_open" in draft.content.decode()
    assert site.listed("invoices") == []

    set_price(site)
    site.run(source, DUE + MINUTE)

    assert site.billed() == {"13:00": 7200}
    (charge,) = site.listed("charges")
    assert (charge["unit_price"]["amount"], charge["unit_price"]["currency"]) == ("2.50", "EUR")
    (told,) = site.listed("accrual-exceptions")
    assert told["resolved_at"] is not None


def test_usage_of_a_payer_without_a_book_waits_for_one(priced: Site) -> None:
    bind(priced.hopper, "virus", priced.cast.virus)
    source = ReplayedSource({HOUR: observation(pod("theirs", namespace="virus"), pod("ours"))})

    priced.run(source, DUE)

    (told,) = priced.listed("accrual-exceptions")
    assert (told["code"], told["unit_seconds"]) == ("no_price_book", 3600)
    assert told["summary"] == "Umbrella has no price book at that hour."
    assert priced.billed() == {"13:00": 3600}

    body = {
        "organization": str(priced.cast.umbrella.pk),
        "price_book": str(priced.book.pk),
        "valid_from": HOUR.isoformat(),
    }
    priced.post(priced.cast.dora, "price-book-assignments", body)
    priced.run(source, DUE + MINUTE)

    assert priced.billed() == {"13:00": 7200}


# ------------------------------------------------- a Prometheus that cannot be believed


def rows_of(world: World) -> bytes:
    assert isinstance(world.sights, list)
    return json.dumps(canned.answer(world.sights, "matrix", warnings=["a store is away"])).encode()


def with_value(value: str) -> World:
    world = sound_world()
    assert isinstance(world.sights, list)
    world.sights[1]["values"][-1][1] = value
    return world


BROKEN: dict[str, tuple[Callable[[], World], str]] = {
    "warnings": (lambda: World(sights=Reply(rows_of(sound_world()))), "partial_response"),
    "NaN": (lambda: with_value("NaN"), "bad_sample"),
    "infinity": (lambda: with_value("+Inf"), "bad_sample"),
    "a negative request": (lambda: with_value("-1"), "bad_sample"),
    "half an answer": (lambda: World(sights=Reply(b'{"status":"succ')), "truncated"),
    "a server error": (lambda: World(sights=Reply(b"secret words", 500)), "server_error"),
    "a login page": (lambda: World(sights=Reply(b"<html>Sign in")), "truncated"),
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
    world.sights, world.facts = other.sights, other.facts
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

    assert site.run(source, at) == Sweep(opened=1, retried=1)

    (window,) = site.listed("metering-windows")
    assert (window["state"], window["failures"], window["sealed_at"]) == ("open", 1, None)
    assert window["last_error"]
    assert "secret" not in window["last_error"]
    (told,) = site.listed("metering-exceptions")
    assert (told["kind"], told["state"]) == ("source_unavailable", "open")
    assert told["details"] == {"reason": reason}
    assert told["remedy"] == REMEDIES[ExceptionKind.SOURCE_UNAVAILABLE]
    assert nothing_written()

    become(world, sound_world())
    assert site.run(source, at + MINUTE) == Sweep(sealed=1)

    assert site.billed() == {"10:00": 3600}
    (told,) = site.listed("metering-exceptions")
    assert told["state"] == "resolved"


def test_a_prometheus_that_is_down_for_days_is_waited_for(priced: Site) -> None:
    source = ReplayedSource({HOUR: observation(pod(units=2))}, down="unreachable")
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


def blind(**fields: object) -> Observation:
    """Return an answer that is empty because nothing was scraped."""
    return observation(ticks=(), nodes=(), **fields)


def test_an_empty_answer_during_an_outage_is_not_zero(priced: Site) -> None:
    source = ReplayedSource({HOUR: blind()})

    assert priced.run(source, DUE) == Sweep(opened=1, retried=1)

    (window,) = priced.listed("metering-windows")
    assert (window["state"], window["coverage"], window["record_count"]) == ("open", "0.00000", 0)
    (told,) = priced.listed("metering-exceptions")
    assert (told["kind"], told["state"]) == ("low_coverage", "open")
    assert told["summary"] == "0 of 120 scrapes took place in this hour, and none after it."
    assert told["remedy"] == REMEDIES[ExceptionKind.LOW_COVERAGE]
    assert nothing_written()

    source.seen[HOUR] = observation(pod(units=2))
    assert priced.run(source, DUE + MINUTE) == Sweep(sealed=1)

    assert priced.billed() == {"13:00": 7200}
    (told,) = priced.listed("metering-exceptions")
    assert told["state"] == "resolved"


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
    refused = priced.door(priced.cast.frank).post(
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
    assert priced.run(ReplayedSource(), DUE) == Sweep(opened=1, sealed=1)

    (capacity,) = priced.listed("capacity-records")
    assert (capacity["billed_unit_seconds"], capacity["idle_unit_seconds"]) == (0, 8 * 3600)
    assert priced.listed("metering-exceptions") == []
    assert priced.billed() == {}

"""Bad input end to end: reported with cause and remedy, never zero or a guess; then corrected."""

from collections.abc import Callable

import pytest

from metering.domain.corrections.exceptions import REMEDIES, UNKNOWN_RESOURCE_REMEDY, ExceptionKind
from metering.models import CapacityRecord
from metering.protocols import PodObservation
from metering.services.collection.sweeping import CollectionSweep
from tests.support.builders import bind
from tests.support.flows.site import (
    API,
    DUE,
    MINUTE,
    NEXT_DUE,
    NEXT_HOUR,
    Site,
    bind_stray,
    next_hour,
    nobody_acts,
)
from tests.support.metering.seen import (
    HOUR,
    ReplayedSource,
    node,
    observation,
    pod,
)

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
def test_what_cannot_be_billed_is_held_and_reported_until_it_can(priced: Site, name: str) -> None:
    kind, odd, better, put_right = HELD[name]
    good = pod("good")
    nodes = (node(allocatable={"nvidia_com_gpu": 8, ODD: 2}), node("node-2", labels={}))
    source = ReplayedSource(
        {HOUR: observation(good, odd, nodes=nodes), NEXT_HOUR: next_hour(good, better)}
    )

    assert priced.run(source, DUE) == CollectionSweep(opened=1, sealed=1)

    (reported,) = priced.listed("metering-exceptions")
    assert (reported["kind"], reported["state"], reported["held_unit_seconds"]) == (
        kind.value,
        "open",
        7200,
    )
    assert reported["subject"] == f"odd {odd.requests[0].resource}"
    assert reported["summary"]
    is_nameless = kind is ExceptionKind.UNKNOWN_DEVICE
    assert reported["remedy"] == (UNKNOWN_RESOURCE_REMEDY if is_nameless else REMEDIES[kind])
    assert priced.billed() == {"13:00": 3600}

    put_right(priced)
    assert priced.run(source, NEXT_DUE) == CollectionSweep(opened=1, sealed=1)

    assert priced.billed() == {"13:00": 3600, "14:00": 3600 + 7200}
    assert [row["window_start"][11:16] for row in priced.listed("metering-exceptions")] == ["13:00"]


def test_a_sealed_hour_keeps_what_it_held_and_says_so(priced: Site) -> None:
    source = ReplayedSource({HOUR: observation(pod("odd", units=2, namespace="stray"))})
    priced.run(source, DUE)
    bind_stray(priced)
    (window,) = priced.listed("metering-windows")
    (reported,) = priced.listed("metering-exceptions")
    before = list(CapacityRecord.objects.values())

    frank = priced.client_for(priced.cast.frank)
    refused = frank.post(f"{API}/metering-windows/{window['id']}/retry/", {"note": "Bound now."})

    assert (refused.status_code, refused.json()["code"]) == (409, "metering_window_sealed")
    assert refused.json()["remedy"]
    assert list(CapacityRecord.objects.values()) == before
    assert priced.billed() == {}
    path = f"metering-exceptions/{reported['id']}/resolve"
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

    assert site.run(source, DUE) == CollectionSweep(opened=1, sealed=1)

    (reported,) = site.listed("accrual-exceptions")
    assert (reported["code"], reported["unit_seconds"]) == ("no_price", 7200)
    assert reported["summary"] == (
        "Price book standard has no price for large units of H100/whole at that hour."
    )
    assert reported["remedy"].startswith("Set a price for the size and group")
    assert reported["resolved_at"] is None
    assert site.billed() == {}
    (period,) = site.listed("billing-periods")
    draft = site.client_for(site.cast.dora).post(
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
    (reported,) = site.listed("accrual-exceptions")
    assert reported["resolved_at"] is not None


def test_usage_of_a_payer_without_a_book_waits_for_one(priced: Site) -> None:
    bind(priced.hopper, "virus", priced.cast.virus)
    source = ReplayedSource({HOUR: observation(pod("theirs", namespace="virus"), pod("ours"))})

    priced.run(source, DUE)

    (reported,) = priced.listed("accrual-exceptions")
    assert (reported["code"], reported["unit_seconds"]) == ("no_price_book", 3600)
    assert reported["summary"] == "Umbrella has no price book at that hour."
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

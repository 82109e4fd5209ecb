"""Writing device events with their hour's figures: once, over several hours, ended by people."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.devices.error_tables import HEALTH_STATUS, XID_ERRORS
from metering.domain.errors import DeviceEventEndedError, NoteMissingError
from metering.models import DeviceEvent
from metering.protocols.health import HealthObservation, HealthRun, HealthSignal
from metering.services.collection.sweeping import meter_due
from metering.services.devices.collection import collect_due_devices
from metering.services.devices.events import end_device_event
from tests.support.builders import bind, make_cluster, make_organization, make_project, make_user
from tests.support.metering.seen import HOUR, LATER, device, moment, observation, pod, worker
from tests.support.metering.waste_world import person

pytestmark = pytest.mark.django_db


def signal(metric: str, value: int, first: int, last: int, code: str = "") -> HealthSignal:
    """Return one level of GPU-1 from one second of the hour to another."""
    return HealthSignal(
        uuid="GPU-1",
        node="node-1",
        instance_id="",
        instance_profile="",
        metric=metric,
        code=code,
        runs=(HealthRun(Decimal(value), moment(first), moment(last)),),
    )


def reported(*signals: HealthSignal) -> HealthObservation:
    return HealthObservation(
        signals=signals, step_seconds=30, query="(x > 0)", asked_at=moment(3660), sha256="a" * 64
    )


@pytest.fixture(autouse=True)
def cluster() -> None:
    """A metered cluster with a bound namespace."""
    bind(make_cluster(metered_from=HOUR), "team-nlp", make_project(make_organization()))


def meter(*hours: HealthObservation) -> None:
    """Meter hours one after another, each with what it reported of health."""
    seen = [
        observation(
            pod("uid-1"),
            start_at=HOUR + number * timedelta(hours=1),
            end_at=HOUR + (number + 1) * timedelta(hours=1),
            ticks=tuple(
                HOUR + timedelta(hours=number, seconds=second) for second in range(-113, 4500, 30)
            ),
            devices=(
                device(
                    begin_at=HOUR + number * timedelta(hours=1),
                    end_at=HOUR + (number + 1) * timedelta(hours=1),
                ),
            ),
            health=health,
        )
        for number, health in enumerate(hours)
    ]
    metering, at = worker(*seen), moment(len(hours) * 3600 + LATER)
    meter_due(worker=metering, at=at)
    collect_due_devices(worker=metering, at=at)


def test_an_xid_is_written_with_its_window_and_its_evidence() -> None:
    meter(reported(signal(XID_ERRORS, 79, 600, 3660)))

    event = DeviceEvent.objects.get()

    assert (event.uuid, event.node, event.kind, event.code) == ("GPU-1", "node-1", "xid", "79")
    assert (event.severity, event.begin_at, event.end_at) == ("fail", moment(600), None)
    assert (event.value_before, event.value_after) == (Decimal(0), Decimal(79))
    assert (event.window.start_at, event.metric) == (HOUR, XID_ERRORS)
    assert event.evidence == {
        "query": "(x > 0)",
        "at": moment(3660).isoformat(),
        "sha256": "a" * 64,
    }


def test_the_next_hour_does_not_tell_it_again() -> None:
    meter(
        reported(signal(XID_ERRORS, 79, 600, 3660)),
        reported(signal(XID_ERRORS, 79, 3540, 7260)),
        reported(signal(XID_ERRORS, 79, 7140, 10_860)),
    )

    assert DeviceEvent.objects.count() == 1


def test_a_status_that_goes_on_is_one_event_over_hours() -> None:
    meter(
        reported(signal(HEALTH_STATUS, 20, 3000, 3660, code="MEM")),
        reported(signal(HEALTH_STATUS, 20, 3540, 5400, code="MEM")),
    )

    event = DeviceEvent.objects.get()
    assert (event.begin_at, event.end_at) == (moment(3000), moment(5430))


def test_a_status_whose_begin_was_not_kept_begins_with_its_hour() -> None:
    meter(reported(signal(HEALTH_STATUS, 20, -60, 1200, code="MEM")))

    event = DeviceEvent.objects.get()
    assert (event.begin_at, event.end_at) == (HOUR, moment(1230))


def test_health_costs_three_statements_and_none_without_signals() -> None:
    def statements(*hours: HealthObservation) -> int:
        with CaptureQueriesContext(connection) as captured:
            meter(*hours)
        return sum("metering_deviceevent" in one["sql"] for one in captured)

    assert statements(reported()) == 0
    assert statements(reported(), reported(signal(XID_ERRORS, 79, 4200, 7260))) == 3


def test_a_person_ends_an_event_once_with_a_reason() -> None:
    meter(reported(signal(XID_ERRORS, 79, 600, 3660)))
    event = DeviceEvent.objects.get()
    frank = person(make_user("frank").pk, "frank")

    with pytest.raises(NoteMissingError):
        end_device_event(event_id=event.pk, note="", actor=frank, at=moment(900))
    with pytest.raises(DeviceEventEndedError):
        end_device_event(event_id=event.pk, note="Early.", actor=frank, at=moment(599))
    ended = end_device_event(event_id=event.pk, note=" Drained. ", actor=frank, at=moment(900))
    with pytest.raises(DeviceEventEndedError):
        end_device_event(event_id=event.pk, note="Again.", actor=frank, at=moment(1000))

    event.refresh_from_db()
    assert (event.end_at, event.note) == (moment(900), "Drained.")
    assert ended == event

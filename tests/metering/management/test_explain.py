"""`manage.py explain` on the command line."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from metering.models import UsageRecord
from metering.services.collection.sweeping import meter_due
from tests.support.builders import bind, make_cluster
from tests.support.cast import make_cast
from tests.support.metering.seen import HOUR, LATER, moment, observation, pod, worker

pytestmark = pytest.mark.django_db
UNTIL = moment(3600).isoformat()


@pytest.fixture(autouse=True)
def metered() -> None:
    """One hour with a pod that is charged and one that is held back."""
    bind(make_cluster(metered_from=HOUR), "llm", make_cast().llm)
    seen = observation(pod("a", namespace="llm"), pod("b", namespace="stray"))
    meter_due(worker=worker(seen), at=moment(3600 + LATER))


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("explain", *arguments, stdout=out)
    return out.getvalue()


def test_a_record_is_reported_step_by_step() -> None:
    text = run("record", str(UsageRecord.objects.get().pk))

    assert "The record: llm/pod-a used 3600 unit-seconds: 1 x 3600 s." in text
    assert "    catalogue_rule_matches: nvidia.com/gpu" in text
    assert "The hour: hopper, 2026-10-05T13:00:00Z: sealed" in text
    assert "    sha256: " in text


def test_a_pod_is_reported_hour_by_hour() -> None:
    text = run("pod", "--cluster", "hopper", "--uid", "b", "--until", UNTIL, "--hours", "2")

    assert "2026-10-05 12:00Z  not_seen      0 unit-seconds, 0 held back" in text
    assert "2026-10-05 13:00Z  held_back     0 unit-seconds, 3600 held back" in text
    assert "held_back: It was seen, but what it used is held back by an open exception." in text


def test_a_pod_is_found_by_its_name() -> None:
    text = run(
        "pod",
        *("--cluster", "hopper", "--namespace", "llm", "--name", "pod-a"),
        *("--until", UNTIL, "--hours", "1"),
    )

    assert "2026-10-05 13:00Z  charged       3600 unit-seconds, 0 held back" in text


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("record", "4711"), "There is no usage record 4711."),
        (("pod", "--cluster", "hopper"), "Give --uid, or --namespace and --name."),
        (("pod", "--cluster", "nowhere", "--uid", "a"), 'There is no cluster "nowhere".'),
        (("pod", "--cluster", "hopper", "--uid", "a", "--hours", "0"), "--hours is a whole number"),
        (("pod", "--cluster", "hopper", "--uid", "a", "--until", "soon"), "--until is a time"),
        (
            ("pod", "--cluster", "hopper", "--uid", "a", "--until", "2026-13-05T14:00:00Z"),
            "--until is no time",
        ),
        (
            ("pod", "--cluster", "hopper", "--uid", "a", "--until", "2026-10-05T14:00:00"),
            "--until is a time with its zone",
        ),
        (
            ("pod", "--cluster", "hopper", "--uid", "a", "--until", "0001-01-01T00:00:00Z"),
            "--until less --hours lies before the year 1.",
        ),
    ],
)
def test_a_question_that_cannot_be_answered_says_why(
    arguments: tuple[str, ...], reported: str
) -> None:
    with pytest.raises(CommandError, match=reported.replace("(", r"\(").split(",")[0]):
        run(*arguments)

"""Hostile set-ups over a real Prometheus: one bad pod or node never stops the others.

Each is metered and sealed by a worker, as in production. The pod `good` is in all of them: it must
be billed its whole hour, whatever is wrong beside it.
"""

from collections.abc import Callable, Iterator

import pytest

from metering.models import MeteringException, PodAllocation
from tests.support.usage_source.hostile_pods import (
    NAMESPACE,
    NODE,
    REQUESTS,
    Setup,
    grid,
    identity,
    metered,
    running,
    sealed,
    sound,
)

pytestmark = pytest.mark.django_db
SETUPS: list[Setup] = []


def setup(slug: str, make: Callable[[str], Setup] = sound) -> Setup:
    """Return a sound set-up that a real Prometheus will hold."""
    SETUPS.append(make(slug))
    return SETUPS[-1]


# ------------------------------------------------------------------ pods

GREEDY = setup("greedy")
GREEDY.pod("greedy", units="2000000", bound=None)

VALUES = {}
for _number, _value in enumerate(("NaN", "+Inf", "-1", "0.5", "1e+18", "2000000")):
    VALUES[_value] = setup(f"value-{_number}")
    VALUES[_value].pod("bad", units=_value)

BINDS = {}
for _number, _value in enumerate(("0", "NaN", "-Inf", "1790845200000", "2e+10")):
    BINDS[_value] = setup(f"bind-{_number}")
    BINDS[_value].pod("bad", bound=_value)

ENDED_AT_NAN = setup("ended-at-nan")
ENDED_AT_NAN.pod("bad", ended="NaN")


def disagreeing(slug: str, disagree: Callable[[Setup], None]) -> Setup:
    """Return a set-up with a second exporter that reports one pod otherwise."""
    made = setup(slug)
    made.up("ksm-1:8080")
    made.pod("bad")
    disagree(made)
    return made


def _other_name(made: Setup) -> None:
    labels = {**identity("other", uid="bad"), "container": "main", "resource": "nvidia_com_gpu"}
    made.add(REQUESTS, labels, "1", grid(), "ksm-1:8080")


COPIES = {
    "request": disagreeing("copy-0", lambda s: s.pod("bad", units="2", instance="ksm-1:8080")),
    "node": disagreeing("copy-1", lambda s: s.pod("bad", node="gone", instance="ksm-1:8080")),
    "time of bind": disagreeing("copy-2", lambda s: s.pod("bad", bound=9, instance="ksm-1:8080")),
    "priority class": disagreeing(
        "copy-3", lambda s: s.pod("bad", priority="burst", instance="ksm-1:8080")
    ),
    "name": disagreeing("copy-4", _other_name),
}

REQUEST_ALONE = setup("request-alone")
REQUEST_ALONE.up("ksm-1:8080")
_asked = {**identity("bad"), "container": "main", "resource": "nvidia_com_gpu"}
REQUEST_ALONE.add(REQUESTS, {**_asked, "node": NODE}, "2", grid(1200), "ksm-1:8080")

NO_NODE = setup("request-without-node")
NO_NODE.add(REQUESTS, _asked)

NO_BINDS = setup("no-binds")
NO_BINDS.rows = [row for row in NO_BINDS.rows if row[0] != "kube_pod_status_scheduled_time"]

LATER = setup("contradicts-itself-later")
LATER.up("ksm-1:8080")
LATER.pod("bad")
LATER.pod("bad", node="gone", priority="burst", units="3", begin=7200, instance="ksm-1:8080")

OLD_EXPORTER = setup("old-exporter")
OLD_EXPORTER.up("ksm-old:8080")
for _name in ("good", "long-gone"):
    OLD_EXPORTER.add(
        REQUESTS,
        {"namespace": NAMESPACE, "pod": _name, "container": "main", "resource": "nvidia_com_gpu"},
        "1",
        grid(),
        "ksm-old:8080",
    )

MANY_LABELS = setup("many-labels")
MANY_LABELS.pod("labelled")
MANY_LABELS.add(
    "kube_pod_labels",
    {
        **identity("labelled"),
        "label_user": "zoë-🦊",
        **{f"label_{number}": f'"\\ \u202e\n{number}' * 20 for number in range(500)},
    },
)

SCRAPED_NODE = setup("node-of-the-scrape-job")
SCRAPED_NODE.pod("moved", begin=600, end=1200, bound=None)
for _row in range(2):
    _metric, _labels, _text, _times = SCRAPED_NODE.rows[-1 - _row]
    SCRAPED_NODE.rows[-1 - _row] = (_metric, {**_labels, "node": "cpu-7"}, _text, _times)
SCRAPED_NODE.pod("moved", begin=1200, bound=1190)

INIT = setup("init-of-another-kind")
INIT.node(units="7", resource="nvidia_com_mig_1g_10gb", labels={})
INIT.pod("warm")
INIT.add(
    "kube_pod_init_container_resource_requests",
    {
        **identity("warm"),
        "node": NODE,
        "container": "warmup",
        "resource": "nvidia_com_mig_1g_10gb",
    },
    "2",
)

MEMORY = setup("memory-in-mebibytes")
MEMORY.node(units="1572864", resource="nvidia_com_gpumem", labels={})
MEMORY.pod("slice", units="1200000", resource="nvidia_com_gpumem")

# ----------------------------------------------------------------- nodes

NODES = {}
for _number, _value in enumerate(("NaN", "-8", "0.5", "1e+30", "4294967296")):
    NODES[_value] = setup(f"node-{_number}")
    NODES[_value].node("bad-node", units=_value)

LONG_NAMES = setup("long-names")
LONG_NAMES.node("n" * 250, units="1", resource="nvidia_com_gpu_" + "x" * 120)
LONG_NAMES.pod("long", node="n" * 250, resource="nvidia_com_gpu_" + "x" * 140)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the Prometheus that holds every set-up."""
    yield from running(SETUPS)


def test_a_waiting_pod_that_asks_for_two_million_stops_nobody(url: str) -> None:
    found = sealed(GREEDY, url)

    assert found.open() == [("invalid_request", "greedy nvidia_com_gpu", 0)]
    exception = MeteringException.objects.get()
    assert (exception.namespace, exception.details["pod"]) == (NAMESPACE, "greedy")
    assert "2000000 x nvidia.com/gpu" in exception.summary


@pytest.mark.parametrize("value", VALUES)
def test_a_request_that_cannot_be_is_an_exception_of_its_pod(url: str, value: str) -> None:
    found = sealed(VALUES[value], url)

    assert found.open() == [("invalid_request", "bad nvidia_com_gpu", 0)]
    assert found.billed() == {"good": 3600}


@pytest.mark.parametrize("value", BINDS)
def test_a_time_of_bind_that_cannot_be_holds_what_its_pod_may_have_used(
    url: str, value: str
) -> None:
    found = sealed(BINDS[value], url)

    assert found.open() == [("inconsistent_metrics", "bad nvidia_com_gpu", 3600)]
    assert found.billed() == {"good": 3600}
    assert "time of bind cannot be" in found.summary()


def test_a_completion_time_that_cannot_be_holds_until_the_end_was_sampled(url: str) -> None:
    found = sealed(ENDED_AT_NAN, url)

    assert found.open() == [("inconsistent_metrics", "bad nvidia_com_gpu", 1800)]


@pytest.mark.parametrize("what", COPIES)
def test_copies_that_disagree_hold_their_pod_alone(url: str, what: str) -> None:
    found = sealed(COPIES[what], url)

    held = 7200 if what == "request" else 3600
    assert found.open() == [("inconsistent_metrics", "bad nvidia_com_gpu", held)]
    assert found.billed() == {"good": 3600}
    assert f"disagree about its {what}" in found.summary().replace(
        "request of container main for nvidia_com_gpu", "request"
    )
    assert not PodAllocation.objects.filter(pod_uid="bad").exists()


def test_a_pod_of_which_only_its_request_is_reported_is_held_alone(url: str) -> None:
    found = sealed(REQUEST_ALONE, url)

    assert found.open() == [("inconsistent_metrics", "bad nvidia_com_gpu", 2 * 2400)]
    assert found.billed() == {"good": 3600}
    assert found.capacity()[NODE, "nvidia.com/gpu"] == (8 * 3600, 7 * 3600 - 2 * 2400)
    assert found.summary() == (
        "The metrics of bad contradict themselves. Nothing but its request is reported."
        " It may have used this much and is not billed."
    )


def test_a_request_that_names_no_node_is_billed_nothing_and_says_so(url: str) -> None:
    found = sealed(NO_NODE, url)

    assert found.open() == [("inconsistent_metrics", "bad nvidia_com_gpu", 0)]
    assert found.billed() == {"good": 3600}
    assert found.summary().endswith("Nothing of it is billed.")


def test_an_answer_in_which_no_pod_has_a_time_of_bind_is_asked_for_again(url: str) -> None:
    found = metered(NO_BINDS, url)

    found.meter()

    assert found.states() == ["open"]
    assert found.open() == [("source_unavailable", "", 0)]
    assert MeteringException.objects.get().details == {"reason": "incomplete_answer"}


def test_a_pod_that_was_snapshotted_is_billed_as_it_was_bound(url: str) -> None:
    found = metered(LATER, url)

    found.meter(hours=3)

    assert found.states() == ["sealed", "sealed", "sealed"]
    assert found.billed() == {"good": 3 * 3600, "bad": 3 * 3600}
    assert found.sizes() == {"H100/whole"}
    assert {row[:2] for row in found.open()} == {("inconsistent_metrics", "bad nvidia_com_gpu")}
    assert {row[2] for row in found.open()} == {0}


def test_what_an_old_exporter_repeats_without_uids_is_distinguished(url: str) -> None:
    found = sealed(OLD_EXPORTER, url)

    assert found.billed() == {"good": 3600}
    [(kind, subject, held)] = found.open()
    assert (kind, subject[:7], held) == ("inconsistent_metrics", "no-uid-", 0)
    assert MeteringException.objects.get().details["pod"] == "long-gone"


def test_five_hundred_labels_in_any_script_are_a_pod_like_others(url: str) -> None:
    found = sealed(MANY_LABELS, url)

    assert found.billed() == {"good": 3600, "labelled": 3600}
    assert PodAllocation.objects.get(pod_uid="labelled").owner == "zoë-🦊"
    assert found.open() == []


def test_the_node_of_the_scrape_job_is_not_that_of_a_pod_that_waited(url: str) -> None:
    found = sealed(SCRAPED_NODE, url)

    assert found.billed() == {"good": 3600, "moved": 3600 - 1190}
    assert found.open() == []


def test_an_init_container_of_another_kind_holds_it_as_long_as_its_pod(url: str) -> None:
    found = sealed(INIT, url)

    assert found.billed() == {"good": 3600, "warm": 3600 + 2 * 3600}
    assert found.sizes() == {"H100/whole", "H100/1g.10gb"}


def test_memory_in_mebibytes_is_a_resource_without_a_size(url: str) -> None:
    found = sealed(MEMORY, url)

    assert found.open() == [("unknown_device", "slice nvidia_com_gpumem", 1_200_000 * 3600)]


@pytest.mark.parametrize("value", NODES)
def test_a_node_whose_offer_cannot_be_stops_no_other(url: str, value: str) -> None:
    found = sealed(NODES[value], url)

    assert found.open() == [("inconsistent_metrics", "bad-node", 0)]
    assert found.capacity() == {(NODE, "nvidia.com/gpu"): (8 * 3600, 7 * 3600)}


def test_names_that_are_too_long_stay_with_their_pod_and_node(url: str) -> None:
    found = sealed(LONG_NAMES, url)

    assert [row[0] for row in found.open()] == ["inconsistent_metrics"] * 2

"""Hostile set-ups over a real Prometheus: labels and offers of nodes, as exporters report them."""

from collections.abc import Callable, Iterator

import pytest

from metering.models import MeteringException, PodAllocation
from tests.support.usage_source.hostile_pods import (
    A100,
    H100,
    NODE,
    Setup,
    grid,
    metered,
    nodeless,
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


# ---------------------------------------------------------------- labels

BARE = setup("bare-exporter")
BARE.up("ksm-bare:8080", grid(-1770))
BARE.node(
    units="",
    labels={"label_kubernetes_io_hostname": "h"},
    times=grid(-1770),
    instance="ksm-bare:8080",
)
for _number in range(6):
    BARE.pod(f"pod-{_number}", bound=_number * 10, begin=0)

LATE = setup("late-labels", nodeless)
LATE.node(labels_times=grid(720))
LATE.pod("short", begin=600, bound=620, ended=680, end=780)

SHARED_H100 = {"label_nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3-SHARED"}
APART = setup("labels-on-two-exporters", nodeless)
APART.up("ksm-1:8080", grid(-1770))
APART.node(labels=SHARED_H100)
APART.node(
    units="",
    labels={"label_nvidia_com_gpu_replicas": "4"},
    times=grid(-1770),
    instance="ksm-1:8080",
)

RELABELLED = setup("relabelled", nodeless)
RELABELLED.up("ksm-bare:8080", grid(-1770))
RELABELLED.node(labels=A100, labels_times=grid(end=1800))
RELABELLED.node(units="", labels=H100, times=grid(1800))
RELABELLED.node(units="", labels={"label_x": "y"}, times=grid(-1770), instance="ksm-bare:8080")
RELABELLED.pod("before", begin=600, bound=610)
RELABELLED.pod("after", begin=2400, bound=2410)

AFTER_THE_HOUR = setup("labels-after-the-hour", nodeless)
AFTER_THE_HOUR.node(labels_times=grid(3600 + 2400))
AFTER_THE_HOUR.pod("short", begin=600, bound=610, ended=1210, end=1800)

MIXED = setup("mixed-models")
for _model in ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"):
    MIXED.rows.append(
        (
            "DCGM_FI_DEV_GPU_UTIL",
            {
                "cluster": MIXED.slug,
                "job": "dcgm-exporter",
                "instance": "10.0.0.7:9400",
                "hostname": NODE,
                "modelName": _model,
                "UUID": f"GPU-{_model[-4:]}",
            },
            "98",
            grid(end=3000),
        )
    )
"""DCGM's exporter is away from ten minutes before the end of the hour on."""

# -------------------------------------------------------------- capacity

SLOW = setup("slow-offer", nodeless)
SLOW.node(times=grid(-1800 + 290, step=300), labels_times=grid())
for _number in range(7):
    SLOW.pod(f"pod-{_number}")

SHRUNK = setup("shrunk-node", nodeless)
SHRUNK.node(times=grid(end=1800), labels_times=grid())
SHRUNK.node(units="7", times=grid(1800), labels={})
SHRUNK.pod("whole", units="6")
SHRUNK.pod("ended", ended=1790)

SPLIT = setup("node-split-into-instances", nodeless)
SPLIT.node(units="4", times=grid(end=1800), labels_times=grid())
SPLIT.node(units="1", times=grid(1800), labels={})
SPLIT.node(units="21", resource="nvidia_com_mig_1g_10gb", times=grid(1800), labels={})
SPLIT.pod("three", units="3", ended=1790)
SPLIT.pod("slices", units="21", resource="nvidia_com_mig_1g_10gb", begin=1800, bound=1810)

TWICE = setup("more-than-offered")
for _number in range(8):
    TWICE.pod(f"pod-{_number}")

RENAMED = setup("renamed-node", nodeless)
RENAMED.node()
RENAMED.node("old-name", units="2", times=grid(end=1800))
RENAMED.node("new-name", units="2", times=grid(1920))
RENAMED.pod("first", units="2", node="old-name", ended=1750)
RENAMED.pod("second", units="2", node="new-name", begin=1920, bound=1930)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Return the Prometheus that holds every set-up."""
    yield from running(SETUPS)


def test_a_second_exporter_without_labels_leaves_every_pod_its_size(url: str) -> None:
    found = sealed(BARE, url)

    assert found.billed() == {"good": 3600, **{f"pod-{n}": 3600 - 10 * n for n in range(6)}}
    assert found.sizes() == {"H100/whole"}
    assert found.open() == []


def test_labels_that_come_after_the_bind_size_a_pod_of_a_minute(url: str) -> None:
    found = sealed(LATE, url)

    assert found.billed() == {"good": 3600, "short": 60}
    assert found.open() == []


def test_labels_that_two_exporters_show_are_one_set(url: str) -> None:
    found = sealed(APART, url)

    assert found.sizes() == {"H100/1of4"}


def test_a_node_that_was_labelled_anew_sizes_each_pod_by_its_bind(url: str) -> None:
    found = sealed(RELABELLED, url)

    groups = dict(PodAllocation.objects.values_list("pod_uid", "price_group"))
    assert groups == {"good": "A100/whole", "before": "A100/whole", "after": "H100/whole"}
    assert found.open() == []


def test_labels_that_come_after_the_hour_complete_it_by_a_recheck(url: str) -> None:
    found = metered(AFTER_THE_HOUR, url)
    found.meter()
    assert found.states() == ["sealed"]
    assert found.open() == [
        ("unknown_node", "good nvidia_com_gpu", 3600),
        ("unknown_node", "short nvidia_com_gpu", 600),
    ]

    swept = found.recheck(hours=2)

    assert (swept.done, swept.corrections) == (1, 1)
    assert found.billed() == {"good": 3600, "short": 600}
    assert found.open() == []


def test_an_offer_that_is_reported_every_five_minutes_holds_in_between(url: str) -> None:
    found = sealed(SLOW, url)

    assert found.open() == []
    assert found.capacity() == {(NODE, "nvidia.com/gpu"): (8 * 3600, 0)}


def test_a_node_that_shrinks_offers_what_it_had_for_as_long_as_it_had_it(url: str) -> None:
    found = sealed(SHRUNK, url)

    offered, used = 8 * 1800 + 7 * 1800, 7 * 3600 + 1790
    assert found.open() == []
    assert found.capacity() == {(NODE, "nvidia.com/gpu"): (offered, offered - used)}


def test_a_node_that_is_split_into_instances_offers_both_one_after_another(url: str) -> None:
    found = sealed(SPLIT, url)

    assert found.open() == []
    capacity = found.capacity()
    assert capacity[NODE, "nvidia.com/gpu"][0] == 4 * 1800 + 1800
    assert capacity[NODE, "nvidia.com/mig-1g.10gb"][0] == 21 * 1830


def test_more_than_was_offered_needs_a_decision_and_says_by_how_much(url: str) -> None:
    found = metered(TWICE, url)

    found.meter()

    assert found.states() == ["collected"]
    assert found.open() == [("over_capacity", f"{NODE} nvidia.com/gpu", 0)]
    assert found.summary() == (
        f"Pods used 32400 unit-seconds of nvidia.com/gpu on {NODE}, 3600 more than the 28800 it"
        " was reported to offer."
    )


def test_a_node_that_is_renamed_is_two_nodes_one_after_another(url: str) -> None:
    found = sealed(RENAMED, url)

    assert found.billed() == {"good": 3600, "first": 2 * 1750, "second": 2 * (3600 - 1930)}
    assert found.open() == []
    assert found.capacity()["old-name", "nvidia.com/gpu"][0] == 2 * 1770
    assert found.capacity()["new-name", "nvidia.com/gpu"][0] == 2 * (3600 - 1890)


def test_a_node_of_two_models_is_not_sized_while_their_exporter_is_away(url: str) -> None:
    found = metered(MIXED, url)

    found.meter()

    assert found.states() == ["sealed"]
    assert found.billed() == {}
    assert found.open() == [("unknown_device", "good nvidia_com_gpu", 3600)]
    assert MeteringException.objects.get().details["cause"] == "mixed_models"

"""Set-ups whose answers leave something out without saying so."""

from collections.abc import Callable
from dataclasses import replace

from tests.support.usage_source.hostile import (
    HOUR,
    Exporter,
    Pod,
    Setup,
)

PODS = tuple(Pod(f"uid-{number}") for number in range(12))
SOUND = Setup("sound", PODS, (Exporter("10.0.0.9:8080"),))
LEFT, BACK = 2 * HOUR + 1200, 4 * HOUR + 600
"""When one of two shards leaves service discovery, and when it is back."""


def is_of(ordinal: int, total: int) -> Callable[[Pod, int], bool]:
    """Return whether a pod belongs to one of some shards."""
    return lambda pod, _: int(pod.uid.removeprefix("uid-")) % total == ordinal


SPREAD = tuple(replace(pod, node=f"node-{1 + int(pod.uid[4:]) // 6}") for pod in PODS)
SHARDS = (
    Exporter("10.0.0.1:8080", shows=is_of(0, 2)),
    Exporter("10.0.0.2:8080", shows=is_of(1, 2), nodes=("node-2",), offset=20),
)
AWAY = ((0, LEFT), (BACK, 6 * HOUR))
SHARD_LEAVES = Setup("shard-leaves", SPREAD, (SHARDS[0], replace(SHARDS[1], up=AWAY)))
SHARD_LOSES = Setup(
    "shard-loses",
    (*SPREAD, Pod("uid-101", bound_at=600, gone_at=3 * HOUR, node="node-1")),
    SHARD_LEAVES.exporters,
)
"""A pod of the shard ends while it is away."""
SHARD_DOWN = Setup(
    "shard-down", SPREAD, (SHARDS[0], replace(SHARDS[1], up=AWAY, down=((LEFT, BACK),)))
)
SHARD_NEVER_THERE = Setup("shard-never-there", SPREAD, (replace(SHARDS[0], shard=(0, 2)),))
RESTARTED = Setup(
    "restarted",
    PODS,
    (
        Exporter("10.0.0.1:8080", up=((0, 6900),)),
        Exporter("10.0.0.2:8080", up=((6960, 6 * HOUR),), offset=10),
    ),
)
RELABELLED = Setup(
    "relabelled",
    PODS,
    (
        Exporter("10.0.0.1:8080", up=((0, 9000),)),
        Exporter("kube-state-metrics-0", up=((9000, 6 * HOUR),), labels={"endpoint": "http"}),
    ),
)
RESHARDED = Setup(
    "resharded",
    SPREAD,
    (
        *(replace(one, up=((0, 9000),), shard=(ordinal, 2)) for ordinal, one in enumerate(SHARDS)),
        *(
            Exporter(
                f"10.0.1.{ordinal}:8080",
                up=((9060, 6 * HOUR),),
                shows=is_of(ordinal, 3),
                nodes=(("node-1",), ("node-2",), ())[ordinal],
                shard=(ordinal, 3),
            )
            for ordinal in range(3)
        ),
    ),
)
RESHARDED_SHORT = Setup("resharded-short", SPREAD, RESHARDED.exporters[:-1])
"""From two shards to three, of which the third is not scraped."""
MOVED = Setup(
    "moved",
    PODS,
    (Exporter("10.0.0.1:8080"), Exporter("10.0.0.2:8080", up=((0, 3600),))),
)
"""A second exporter that showed everything too is gone for good."""
IDLE_GONE = Setup(
    "idle-gone",
    PODS,
    (
        Exporter("10.0.0.1:8080"),
        Exporter("10.0.0.1:8081", up=((0, 3600),), shows=lambda *_: False, nodes=()),
    ),
)
OF_NODES = Setup(
    "of-nodes",
    (
        *PODS[:6],
        *(replace(pod, node="node-2", gone_at=6000) for pod in PODS[6:]),
    ),
    (
        Exporter("10.0.0.1:8080", shows=lambda *_: False, nodes=("node-1",)),
        Exporter("10.0.0.1:8081", shows=lambda *_: False, nodes=("node-2",), up=((0, 6060),)),
        Exporter("10.0.1.1:8080", shows=lambda pod, _: pod.node == "node-1", nodes=()),
        Exporter(
            "10.0.1.2:8080",
            shows=lambda pod, _: pod.node == "node-2",
            nodes=(),
            up=((0, 6000),),
        ),
    ),
)
"""An exporter of its pods on each node, and a node that is taken away with its exporter."""
REPLICAS = Setup(
    "replicas",
    PODS,
    (
        Exporter("10.0.0.1:8080", labels={"prometheus_replica": "a"}),
        Exporter("10.0.0.1:8080", labels={"prometheus_replica": "b"}, up=((0, 8000),), offset=20),
    ),
)
BUSY = (
    *(Pod(f"uid-{number}", bound_at=5000 + 347 * number) for number in range(12)),
    *(
        Pod(f"brief-{number}", bound_at=7300 + 200 * number, gone_at=9000 + 131 * number)
        for number in range(12)
    ),
)
"""Pods that begin and end at any second of an hour."""
SKEWS = tuple(
    Setup(f"skewed-{number}", BUSY, (Exporter("10.0.0.9:8080", ahead=ahead),))
    for number, ahead in enumerate((0, 90, -40, 20, 400, -200))
)
TWO_OF_ONE_NAME = Setup(
    "two-of-one-name",
    (*PODS, *(replace(pod, uid=f"b-{pod.uid}", name=f"pod-{pod.uid}") for pod in PODS)),
    (
        Exporter("10.0.0.9:8080", shows=lambda pod, _: not pod.uid.startswith("b-")),
        Exporter("10.1.0.9:8080", shows=lambda pod, _: pod.uid.startswith("b-")),
    ),
)
TWO_OF_EQUAL_NODES = replace(
    TWO_OF_ONE_NAME,
    slug="two-of-equal-nodes",
    pods=(*PODS, *(replace(pod, uid=f"b-{pod.uid}", name=f"other-{pod.uid}") for pod in PODS)),
)
BY_NAMESPACE = Setup(
    "by-namespace",
    (*PODS, *(replace(pod, uid=f"b-{pod.uid}", namespace="team-cv") for pod in PODS)),
    TWO_OF_ONE_NAME.exporters,
)
"""Two exporters of one cluster, each for its own namespace and both for the nodes."""
SETUPS = (
    *SKEWS,
    TWO_OF_ONE_NAME,
    TWO_OF_EQUAL_NODES,
    BY_NAMESPACE,
    SOUND,
    SHARD_LEAVES,
    SHARD_LOSES,
    SHARD_DOWN,
    SHARD_NEVER_THERE,
    RESTARTED,
    RELABELLED,
    RESHARDED,
    RESHARDED_SHORT,
    MOVED,
    IDLE_GONE,
    OF_NODES,
    REPLICAS,
)

"""Set-ups whose exporters leave service discovery: for good, or replaced by others."""

from dataclasses import replace

from tests.support.usage_source.completeness_setups import LEFT, is_of
from tests.support.usage_source.hostile import HOUR, UNTIL, Exporter, Pod, Setup

NODES = tuple(f"node-{number}" for number in range(1, 7))
NLP = tuple(Pod(f"uid-{number}", node=NODES[number % 6]) for number in range(12))
CV = tuple(replace(pod, uid=f"cv-{pod.uid}", namespace="team-cv") for pod in NLP)
LATER = ((LEFT + 60, UNTIL),)
EARLIER = ((0, LEFT),)
ONE_OF_NLP = Exporter(
    "10.0.0.1:8080", shows=lambda pod, _: pod.namespace == "team-nlp", nodes=NODES
)
ONE_OF_CV = Exporter(
    "10.0.0.2:8080", shows=lambda pod, _: pod.namespace == "team-cv", nodes=NODES, offset=20
)
ONE_OF_ALL = replace(ONE_OF_NLP, shows=lambda *_: True)
NAMESPACE_LEAVES = Setup(
    "namespace-leaves", (*NLP, *CV), (replace(ONE_OF_NLP, up=EARLIER), ONE_OF_CV)
)
"""Of two exporters that both show the nodes, that of one namespace is gone for good."""
NAMESPACE_REPLACED = Setup(
    "namespace-replaced",
    (*NLP, *CV),
    (*NAMESPACE_LEAVES.exporters, replace(ONE_OF_NLP, instance="10.0.1.1:8080", up=LATER)),
)
NAMESPACES_ROLLED = Setup(
    "namespaces-rolled",
    (*NLP, *CV),
    (
        replace(ONE_OF_NLP, up=EARLIER),
        replace(ONE_OF_CV, up=EARLIER),
        replace(ONE_OF_CV, instance="10.0.1.2:8080", up=LATER),
    ),
)
"""Both are replaced at once, and one of them does not come back."""
WIDER_LEAVES = Setup("wider-leaves", (*NLP, *CV), (replace(ONE_OF_ALL, up=EARLIER), ONE_OF_CV))
"""One of two exporters shows all, the other one namespace of it; the wider one is gone."""
SHARDS = tuple(
    Exporter(f"10.0.0.{ordinal}:8080", shows=is_of(ordinal, 6), nodes=(NODES[ordinal],))
    for ordinal in range(6)
)
SHARDS_ROLLED = Setup(
    "shards-rolled",
    NLP,
    (
        replace(SHARDS[0], up=EARLIER),
        *(
            part
            for ordinal, shard in enumerate(SHARDS[1:], 1)
            for part in (
                replace(shard, up=((0, LEFT + 180 * ordinal),)),
                replace(
                    shard,
                    instance=f"10.0.1.{ordinal}:8080",
                    up=((LEFT + 180 * ordinal + 60, UNTIL),),
                ),
            )
        ),
    ),
)
"""Six shards are upgraded one after another, and the first of them never comes back."""
SHARD_OF_TWO_LEAVES = Setup(
    "shard-of-two-leaves",
    NLP,
    (
        Exporter("10.0.0.1:8080", shows=is_of(0, 2), nodes=NODES[::2]),
        Exporter("10.0.0.2:8080", shows=is_of(1, 2), nodes=NODES[1::2], up=EARLIER),
        Exporter("10.0.0.3:8080", shows=is_of(1, 2), nodes=NODES[1::2], up=((0, LEFT + 30),)),
    ),
)
"""A shard has two replicas, and both of them are gone for good."""
COPIES_REPLACED = Setup(
    "copies-replaced",
    (*NLP, Pod("uid-100", bound_at=LEFT - 60, gone_at=LEFT + 60)),
    (
        replace(ONE_OF_ALL, up=EARLIER),
        replace(ONE_OF_ALL, instance="10.0.0.2:8080", up=((0, LEFT + 300),), offset=20),
        replace(ONE_OF_ALL, instance="10.0.1.1:8080", up=LATER),
        replace(ONE_OF_ALL, instance="10.0.1.2:8080", up=((LEFT + 360, UNTIL),), offset=20),
    ),
)
"""Two copies are replaced one after another while a short pod ends."""
DAEMON = Pod("daemon-0", units=0, node="node-2")
IDLE_SHARDS = (
    Exporter("10.0.0.1:8080", shows=lambda *_: True, nodes=("node-1",)),
    Exporter("10.0.0.2:8080", shows=lambda *_: False, nodes=("node-2",), up=EARLIER),
)
ON_NODE_1 = tuple(replace(pod, node="node-1") for pod in NLP)
IDLE_SHARD_LEAVES = Setup("idle-shard-leaves", (*ON_NODE_1, DAEMON), IDLE_SHARDS)
"""A shard that showed idle nodes alone is gone, and another one shows pods on them."""
IDLE_NODE_LEAVES = Setup(
    "idle-node-leaves", (*ON_NODE_1, replace(DAEMON, gone_at=LEFT + 300)), IDLE_SHARDS
)
"""An idle node is taken away, with the exporter on it."""
SETUPS = (
    NAMESPACE_LEAVES,
    NAMESPACE_REPLACED,
    NAMESPACES_ROLLED,
    WIDER_LEAVES,
    SHARDS_ROLLED,
    SHARD_OF_TWO_LEAVES,
    COPIES_REPLACED,
    IDLE_SHARD_LEAVES,
    IDLE_NODE_LEAVES,
)
HOURS_AFTER = LEFT // HOUR + 1
"""The first hour that begins after they left."""

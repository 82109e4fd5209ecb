"""Set-ups in which a few pods contradict the clock of their answer, or its one cluster."""

from dataclasses import replace

from tests.support.usage_source.completeness_setups import BUSY, PODS
from tests.support.usage_source.hostile import HOUR, Exporter, Pod, Setup

ALONE = Exporter("10.0.0.9:8080")
WRONG = tuple(
    Pod(f"wrong-{late}", bound_at=8000, gone_at=10_000, created_late=late) for late in (120, 700)
)
CREATED_LATE = Setup("created-late", (*BUSY, *WRONG), (ALONE,))
"""Of 26 new pods two are said to have been created after they were shown."""
FEW_NEW = Setup("few-new", (*PODS, Pod("new", bound_at=8100), WRONG[1]), (ALONE,))
MANY_LATE = Setup(
    "many-late",
    (
        *BUSY,
        *(replace(WRONG[0], uid=f"wrong-{number}", bound_at=8000 + number) for number in range(5)),
    ),
    (ALONE,),
)
"""Five of them, which agree with each other and not with most."""
RECREATED = 9000


def is_new(pod: Pod) -> bool:
    """Whether a pod was created anew."""
    return pod.uid.startswith("new-")


def is_even(pod: Pod) -> bool:
    """Whether the number of a pod is even."""
    return int(pod.uid.rpartition("-")[2]) % 2 == 0


def recreated(count: int, *, stale_seconds: int) -> tuple[Pod, ...]:
    """Return pods of a StatefulSet that get new uids, and are shown with the old ones for longer.

    Those that are created anew begin with "new-", the former ones with "old-".
    """
    olds = (
        Pod(f"old-{number}", gone_at=RECREATED + stale_seconds, name=f"set-{number}")
        for number in range(count)
    )
    news = (
        Pod(f"new-{number}", bound_at=RECREATED + 10, name=f"set-{number}")
        for number in range(count)
    )
    return (*olds, *news)


def shows_current(pod: Pod, at: int) -> bool:
    """Whether an exporter shows a pod that sees at once what is gone."""
    return not pod.uid.startswith("old-") or at < RECREATED


COPIES = (
    Exporter("10.0.0.1:8080", shows=shows_current),
    Exporter("10.0.0.2:8080", offset=20),
)
STALE_COPY = Setup("stale-copy", (*PODS, *recreated(1, stale_seconds=300)), COPIES)
"""One of two copies of the exporter shows the former pod for some minutes."""
STALE_SET = Setup("stale-set", (*PODS, *recreated(3, stale_seconds=300)), COPIES)
STALE_SHARD = Setup(
    "stale-shard",
    (*PODS, *recreated(4, stale_seconds=300)),
    (
        Exporter(
            "10.0.0.1:8080",
            shows=lambda pod, at: shows_current(pod, at) and (is_even(pod) or is_new(pod)),
        ),
        Exporter(
            "10.0.0.2:8080",
            shows=lambda pod, _: not (is_even(pod) or is_new(pod)),
            nodes=(),
            offset=20,
        ),
    ),
)
"""Shards never show the same pods, and one of them is late."""
STUCK_COPY = Setup("stuck-copy", (*PODS, *recreated(1, stale_seconds=2 * HOUR)), COPIES)
"""Late by hours."""
OTHER_PODS = tuple(
    replace(pod, uid=f"b-{pod.uid}", name=f"pod-{pod.uid}", node="b-node") for pod in PODS
)
TWO_WITH_OTHER_NODES = Setup(
    "two-with-other-nodes",
    (*PODS, OTHER_PODS[0]),
    (
        Exporter("10.0.0.9:8080", shows=lambda pod, _: pod.node == "node-1"),
        Exporter("10.1.0.9:8080", shows=lambda pod, _: pod.node == "b-node", nodes=("b-node",)),
    ),
)
"""Two clusters that have one name of a pod in common, and nothing else."""
TWO_OF_ONE_TARGET = Setup(
    "two-of-one-target",
    (*PODS, *OTHER_PODS),
    tuple(
        replace(one, instance="10.0.0.9:8080", labels={"region": region})
        for one, region in zip(TWO_WITH_OTHER_NODES.exporters, "ab", strict=True)
    ),
)
"""Two clusters whose exporters have one address."""
SETUPS = (
    CREATED_LATE,
    FEW_NEW,
    MANY_LATE,
    STALE_COPY,
    STALE_SET,
    STALE_SHARD,
    STUCK_COPY,
    TWO_WITH_OTHER_NODES,
    TWO_OF_ONE_TARGET,
)

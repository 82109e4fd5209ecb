"""The lab's scenario: nine pods chosen so that each breaks one usual way of metering.

Times are in units from the begin, so that the same scenario runs live in minutes or is generated as
an hour. A window is 200 units; scrapes are two units apart. kube-state-metrics is restarted as
another instance; Prometheus is killed and restarted later.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from simulator.cluster.hardware import GPU_RESOURCE, WHOLE_H100, whole_node
from simulator.cluster.scenario import (
    Container,
    Namespace,
    Outage,
    Pod,
    PodPhase,
    Scenario,
    SimulatedCluster,
)

SLUG: Final = "lab"
NAMESPACE: Final = "team-lab"
NODE: Final = "lab-node-1"
WINDOW_UNITS: Final = 200
SCRAPE_UNITS: Final = 2
RESTART_UNITS: Final = 60
KILL_UNITS: Final = 110
BACK_UNITS: Final = 150
TALE: Final[Mapping[str, tuple[str, int, int | None, int | None, bool]]] = {
    # Uid: name, GPUs, bind, end, and whether the finished object stays.
    "u1": ("job", 2, 10, 56, True),
    "u2a": ("reused", 1, 20, 41, False),
    "u2b": ("reused", 1, 60, 93, False),
    "u3": ("blink", 1, 29, 30, False),
    "u4": ("notebook", 1, 5, None, False),
    "u5": ("dies-in-outage", 1, 80, 130, False),
    "u6": ("born-in-outage", 1, 120, None, False),
    "u7": ("lives-in-outage", 1, 118, 140, False),
    "u8": ("job-in-outage", 4, 90, 128, True),
    "u9": ("pending", 8, None, None, False),
}


def lab_scenario(begin_at: datetime, *, unit_seconds: int = 1, is_holed: bool = True) -> Scenario:
    """Return the nine pods from a moment on.

    Args:
        begin_at: When unit 0 is.
        unit_seconds: How long a unit lasts.
        is_holed: Whether the scenario contains the outage; a live Prometheus has its own.
    """
    unit = timedelta(seconds=unit_seconds)
    node = whole_node(NODE, address="10.0.0.1")
    pods = [_pod(uid, begin_at=begin_at, unit=unit) for uid in TALE]
    outage = Outage(begin_at + KILL_UNITS * unit, begin_at + BACK_UNITS * unit)
    cluster = SimulatedCluster(
        slug=SLUG,
        name="Lab",
        nodes=(node,),
        namespaces=(Namespace(NAMESPACE),),
        pods=tuple(sorted(pods, key=lambda pod: (pod.created_at, pod.uid))),
        offered_resources=(GPU_RESOURCE,),
        scrape_interval_seconds=SCRAPE_UNITS * unit_seconds,
        outages=(outage,) if is_holed else (),
    )
    return Scenario(
        seed=0,
        begin_at=begin_at - timedelta(days=1),
        until=begin_at + timedelta(days=365),
        organizations=(),
        clusters=(cluster,),
    )


def _pod(uid: str, *, begin_at: datetime, unit: timedelta) -> Pod:
    name, gpus, bind, end, stays = TALE[uid]
    bound_at = None if bind is None else begin_at + bind * unit
    end_at = None if end is None else begin_at + end * unit
    return Pod(
        uid=uid,
        namespace=NAMESPACE,
        name=name,
        node=NODE if bound_at else "",
        created_at=bound_at or begin_at,
        scheduled_at=bound_at,
        started_at=bound_at,
        finished_at=end_at if stays else None,
        deleted_at=None if stays else end_at,
        end_phase=_end_phase(is_bound=bound_at is not None, stays=stays),
        containers=(Container("main", requests={GPU_RESOURCE: gpus}),),
        resource=GPU_RESOURCE,
        labels={},
        owner="",
        owner_kind="Job",
        owner_name=name,
        priority_class="",
        slots=(),
        true_units=gpus,
        true_size=WHOLE_H100.size,
        true_price_group=WHOLE_H100.price_group,
        true_sharing_mode=WHOLE_H100.sharing_mode,
    )


def _end_phase(*, is_bound: bool, stays: bool) -> PodPhase:
    if stays:
        return PodPhase.SUCCEEDED
    return PodPhase.RUNNING if is_bound else PodPhase.PENDING

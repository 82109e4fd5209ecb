"""The load of `bench.losses`: requests above the limits at all times, and a count of live pods."""

import random
import threading
import time
from datetime import datetime
from typing import Any, Final

from simulator.kubernetes_api import KubernetesAPI
from simulator.kubernetes_api.access import User, Write
from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.pods import RUNS_FOR
from simulator.kubernetes_api.quota import TERMINAL
from simulator.kubernetes_api.resources import PODS
from simulator.kubernetes_api.writing import create_object

PROJECT_UNITS: Final = {"arm": 4, "fleet": 3}
"""By project, whose namespace has the same name."""
ORGANIZATION_UNITS: Final = 6
"""Less than its projects together: only admission can hold it."""
OVERCOMMIT_PERCENT: Final = 150
RUN_SECONDS: Final = (2, 12)
PAUSE_SECONDS: Final = 0.2
LOOK_SECONDS: Final = 0.05
FORGET_SECONDS: Final = 5
JSON = dict[str, Any]


def set_limits(*, at: datetime) -> None:
    """Set the organization's limit and its projects'."""
    from quotas.services.limits.limits import set_limit  # noqa: PLC0415
    from simulator.sandbox.plan import TAILSPIN  # noqa: PLC0415 - Django is set up by then.
    from tenants.domain.actors import system_actor  # noqa: PLC0415
    from tenants.models import Organization, Project  # noqa: PLC0415

    organization = Organization.objects.get(slug=TAILSPIN.slug)
    given: JSON = {"organization": organization, "size": "large", "at": at}
    actor = system_actor("bench")
    set_limit(
        scope="organization",
        limit_units=ORGANIZATION_UNITS,
        overcommit_percent=OVERCOMMIT_PERCENT,
        actor=actor,
        **given,
    )
    for slug, units in PROJECT_UNITS.items():
        project = Project.objects.get(organization=organization, slug=slug)
        set_limit(scope="project", project=project, limit_units=units, actor=actor, **given)


class Load:
    """Creates pods all the time, from several threads, and counts live pods.

    Args:
        api: The cluster.
    """

    workers: Final = 4

    def __init__(self, api: KubernetesAPI) -> None:
        self._api = api
        self._is_on = threading.Event()
        self._lock = threading.Lock()
        self._reported: dict[str, int] = {"over": 0, "admitted": 0, "refused": 0}
        self._number = 0

    def obey(self, order: str) -> JSON:
        """Begin, pause, start a count, or report; return what was counted."""
        if order == "begin":
            self._is_on.set()
        elif order == "pause":
            self._is_on.clear()
        elif order == "count":
            self._reported = {"over": 0, "admitted": 0, "refused": 0}
        return {**self._reported, "live": self._live()}

    def work(self) -> None:
        """Ask for one pod after another."""
        chance = random.Random(threading.get_ident())  # noqa: S311 - A load.
        while True:
            self._is_on.wait()
            namespace = chance.choice(list(PROJECT_UNITS))
            self._create(namespace, chance.choice((1, 1, 2)), chance.randint(*RUN_SECONDS))
            time.sleep(PAUSE_SECONDS)

    def watch(self) -> None:
        """Sample the live units above the limits, and delete finished pods."""
        while True:
            live = self._live()
            over = max(
                live[""] - ORGANIZATION_UNITS,
                *(live[slug] - units for slug, units in PROJECT_UNITS.items()),
            )
            self._reported["over"] = max(self._reported["over"], over)
            self._clear()
            time.sleep(LOOK_SECONDS)

    def _create(self, namespace: str, units: int, seconds: int) -> None:
        with self._lock:
            self._number += 1
            name = f"load-{self._number}"
        container = {
            "name": "main",
            "image": "x",
            "resources": {"limits": {"nvidia.com/gpu": str(units)}},
        }
        pod = {
            "metadata": {"name": name, "annotations": {RUNS_FOR: str(seconds)}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        write = Write(self._api.store, PODS, (namespace, ""), "kubectl", user=User("theo"))
        try:
            create_object(write, pod)
        except StatusError:
            self._reported["refused"] += 1
        else:
            self._reported["admitted"] += 1

    def _live(self) -> dict[str, int]:
        """Return GPUs of pods that are not over, by namespace and "" for all."""
        live = dict.fromkeys(("", *PROJECT_UNITS), 0)
        for (namespace, _), pod in self._api.store.items(PODS):
            if pod["status"].get("phase") not in TERMINAL:
                (container,) = pod["spec"]["containers"]
                units = int(container["resources"]["limits"]["nvidia.com/gpu"])
                live[namespace] += units
                live[""] += units
        return live

    def _clear(self) -> None:
        """Remove pods that have been over for a while, as their owner's clean-up would."""
        for key, pod in self._api.store.items(PODS):
            if pod["status"].get("phase") not in TERMINAL:
                continue
            state = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            ended = datetime.fromisoformat(state["finishedAt"])
            if (datetime.now(ended.tzinfo) - ended).total_seconds() > FORGET_SECONDS:
                with self._api.store.lock:
                    if self._api.store.get(PODS, key) is not None:
                        self._api.store.remove(PODS, key)

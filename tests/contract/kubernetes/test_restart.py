"""A restart of the API server: what is still there, and what every client of ours does then."""

import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
import urllib3

from metering.adapters.kubernetes import KubernetesClusterWatch
from metering.protocols.watch import WatchedKind, WatchExpiredError, WatchTarget
from quotas.adapters.kubernetes import KubernetesQuotaEnforcer
from quotas.adapters.resource_quota_watch import KubernetesQuotaWatch
from quotas.protocols import DesiredQuota, EnforcementEndpoint
from quotas.protocols.drift import QuotaVersionExpiredError
from tests.contract.kubernetes.conftest import (
    GPU_KEY,
    LABELS,
    LEFT_OUT,
    Core,
    new_name,
    pod_body,
    wait_for,
)
from tests.support.kubernetes.registering import hooked
from tests.support.kubernetes.server import RESTARTS, WEBHOOKS, Server, is_real
from tests.support.kubernetes.sweeping import close_namespace
from tests.support.kubernetes.wire import Body, Wire
from tests.support.references import reference_to

pytestmark = pytest.mark.needs(RESTARTS)
DOWN_SECONDS = 0.3
BACK_SECONDS_MAX = 120
"""A real server reads everything from etcd, and elects nothing."""
STREAM_SECONDS = 300
"""Longer than a restart takes: only the restart ends such a stream."""


@dataclass
class Stream:
    """A watch of pods in a thread of its own."""

    events: list[Body] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def follow(self, wire: Wire, namespace: str, version: str) -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        try:
            for event in wire.watch(path, seconds=STREAM_SECONDS, resourceVersion=version):
                self.events.append(event)
        except (urllib3.exceptions.HTTPError, OSError):
            pass
        self.is_over.set()


@dataclass(frozen=True)
class Restarted:
    """A server that was started again, and what was there before.

    Attributes:
        version: From before the last write.
        pods: As they were listed.
    """

    namespace: str
    version: str
    pods: list[Body]
    stream: Stream
    enforcer: KubernetesQuotaEnforcer
    endpoint: EnforcementEndpoint
    target: WatchTarget


@pytest.fixture(scope="module")
def restart(request: pytest.FixtureRequest, wire: Wire, server: Server) -> Callable[[], None]:
    """Return what starts the server again and waits until it answers."""

    def run() -> None:
        if is_real():
            subprocess.run(shlex.split(os.environ["CONTRACT_RESTART"]), check=True)
        else:
            request.getfixturevalue("fake_api").restart(down_seconds=DOWN_SECONDS)
        deadline = time.monotonic() + BACK_SECONDS_MAX
        while not is_ready(wire):
            assert time.monotonic() < deadline, "The API server does not come back."
            time.sleep(0.1)

    if not server.may_restart:
        pytest.skip(f"{LEFT_OUT}{RESTARTS}")
    return run


@pytest.fixture(scope="module")
def restarted(
    wire: Wire, core: Core, kubeconfig: str, restart: Callable[[], None]
) -> Iterator[Restarted]:
    """Start the server again, once, under a stream, a quota and a client's open connections."""
    name = new_name()
    core.create_namespace({"metadata": {"name": name, "labels": LABELS}})
    home = f"/api/v1/namespaces/{name}"
    wait_for(lambda: wire.get(f"{home}/serviceaccounts/default").code == 200)
    reference = reference_to(kubeconfig)
    enforcer = KubernetesQuotaEnforcer()
    endpoint = EnforcementEndpoint("contract", "", reference)
    enforcer.apply(endpoint, DesiredQuota(name, {GPU_KEY: 4}, 1))
    version = wire.get(f"{home}/pods").body["metadata"]["resourceVersion"]
    stream = Stream()
    threading.Thread(target=stream.follow, args=(wire, name, version), daemon=True).start()
    assert wire.post(f"{home}/pods", pod_body("before", gpus=1)).code == 201
    wait_for(lambda: len(stream.events) == 1)
    wait_for(lambda: enforcer.read(endpoint, name).used == {GPU_KEY: 1})
    pods = wire.get(f"{home}/pods").body["items"]

    restart()

    target = WatchTarget("contract", credential_reference=reference)
    yield Restarted(name, version, pods, stream, enforcer, endpoint, target)
    close_namespace(wire, name)


def is_ready(wire: Wire) -> bool:
    try:
        return wire.get("/readyz").code == 200
    except (urllib3.exceptions.HTTPError, OSError):
        return False


def pods_of(restarted: Restarted) -> str:
    return f"/api/v1/namespaces/{restarted.namespace}/pods"


def test_objects_are_as_they_were(restarted: Restarted, wire: Wire) -> None:
    assert wire.get(pods_of(restarted)).body["items"] == restarted.pods


def test_a_stream_from_before_has_ended_and_was_complete_until_then(restarted: Restarted) -> None:
    assert restarted.stream.is_over.wait(BACK_SECONDS_MAX)

    (event,) = restarted.stream.events
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "before")


def test_a_version_from_before_has_expired(restarted: Restarted, wire: Wire) -> None:
    (event,) = wire.watch(pods_of(restarted), resourceVersion=restarted.version)

    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"


def test_the_watch_of_pods_lists_again_and_goes_on_from_there(
    restarted: Restarted, wire: Wire
) -> None:
    watch, pods = KubernetesClusterWatch(), WatchedKind.PODS
    with pytest.raises(WatchExpiredError):
        list(
            watch.watch(
                restarted.target, pods, resource_version=restarted.version, timeout_seconds=5
            )
        )

    pages = list(watch.list(restarted.target, pods))
    made = wire.post(pods_of(restarted), pod_body("after", gpus=1)).body["metadata"]["uid"]
    stream = watch.watch(
        restarted.target, pods, resource_version=pages[-1].resource_version, timeout_seconds=5
    )
    events = list(stream)

    listed = {state.uid for page in pages for state in page.states}
    assert {one["metadata"]["uid"] for one in restarted.pods} <= listed
    assert made not in listed
    assert made in {event.state.uid for event in events if event.state is not None}


def test_the_watch_of_quotas_is_told_so_too(restarted: Restarted) -> None:
    watch = KubernetesQuotaWatch()

    with pytest.raises(QuotaVersionExpiredError):
        list(watch.watch_quotas(restarted.endpoint, version=restarted.version, timeout_seconds=5))

    listed = watch.list_quotas(restarted.endpoint)
    assert listed.quotas[restarted.namespace].hard == {GPU_KEY: 4}


def test_the_enforcer_goes_on_over_connections_from_before(restarted: Restarted) -> None:
    desired = DesiredQuota(restarted.namespace, {GPU_KEY: 6}, 2)

    live = restarted.enforcer.apply(restarted.endpoint, desired)

    assert (live.hard, live.generation) == ({GPU_KEY: 6}, 2)


@pytest.mark.needs(WEBHOOKS)
def test_a_webhook_from_before_is_asked_about_the_first_pod(
    wire: Wire,
    namespace: str,
    server: Server,
    restart: Callable[[], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """No pod may slip through between the server's start and its webhooks'."""
    with hooked(wire, namespace, server, tmp_path_factory) as hooks:
        hooks.start(failurePolicy="Fail")

        restart()
        made = hooks.wire.post(hooks.pods, pod_body("first"))

        assert made.code == 201
        assert [one["name"] for one in hooks.server.seen] == ["first"]

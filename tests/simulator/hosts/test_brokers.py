"""The broker of a run: how each host reaches a Valkey, or the pair that sentinels watch."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.hosts.brokers import SERVICE, Broker
from simulator.hosts.networks import LoopbackNetwork

pytestmark = pytest.mark.enable_socket
PAIR, WATCHERS = ("broker", "broker-replica"), ("worker-1", "worker-2", "worker-3")


@pytest.fixture
def network() -> LoopbackNetwork:
    return LoopbackNetwork()


@pytest.fixture
def state() -> Iterator[Path]:
    """Give a folder that the account of the servers reaches."""
    with tempfile.TemporaryDirectory(prefix="gpu-ledger-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture
def places(network: LoopbackNetwork, state: Path) -> dict[str, tuple[Path, str]]:
    """Return the folder and the address of each host."""
    found = {name: (state / name, network.add(name)) for name in (*PAIR, *WATCHERS)}
    for folder, _ in found.values():
        folder.mkdir(mode=0o755)
    return found


def of(places: dict[str, tuple[Path, str]], *names: str) -> dict[str, tuple[Path, str]]:
    return {name: places[name] for name in names}


def test_without_sentinels_a_host_reaches_the_one_valkey_over_its_link(
    network: LoopbackNetwork, places: dict[str, tuple[Path, str]]
) -> None:
    broker = Broker(of(places, "broker"), watchers={})

    variables, links = broker.joined(network, "worker-1")

    (port, password) = broker.primary.port, broker.primary.password()
    link = network_address(places["worker-1"][1], places["broker"][1])
    assert (variables, links) == ({"REDIS_URL": f"redis://:{password}@{link}:{port}/0"}, {})
    assert list(broker.servers) == ["broker"]
    assert broker.primary.lines == ()


def network_address(origin: str, target: str) -> str:
    """Return the address at which one host reaches another: that of the proxy between them."""
    prefix, _, here = origin.rpartition(".")
    return f"{prefix.removesuffix('.0')}.{here}.{target.rpartition('.')[2]}"


def test_with_sentinels_a_host_reaches_each_server_that_they_name_over_its_link(
    network: LoopbackNetwork, places: dict[str, tuple[Path, str]]
) -> None:
    broker = Broker(of(places, *PAIR), watchers=of(places, *WATCHERS))

    variables, links = broker.joined(network, "worker-2")

    here = places["worker-2"][1]
    sentinels = {name: sentinel.port for name, sentinel in broker.sentinels.items()}
    assert variables == {
        "REDIS_URL": f"redis://:{broker.primary.password()}@{SERVICE}/0",
        "REDIS_SENTINELS": ",".join(
            f"{here if name == 'worker-2' else network_address(here, places[name][1])}:{port}"
            for name, port in sentinels.items()
        ),
    }
    assert links == {places[name][1]: network_address(here, places[name][1]) for name in PAIR}
    assert list(broker.servers) == [*PAIR, *WATCHERS]


@pytest.fixture
def broker(places: dict[str, tuple[Path, str]]) -> Iterator[Broker]:
    """Give a pair and its sentinels, all started."""
    made = Broker(of(places, *PAIR), watchers=of(places, *WATCHERS))
    try:
        for server in made.servers.values():
            server.start()
        yield made
    finally:
        for server in made.servers.values():
            server.stop()


@pytest.mark.soak
@pytest.mark.seconds(6)
def test_a_lost_primary_is_replaced_and_is_a_replica_when_it_comes_back(broker: Broker) -> None:
    assert broker.host_of_primary() == "broker"

    broker.primary.stop()
    broker.await_promotion(lost="broker")
    broker.primary.start()

    assert broker.host_of_primary() == "broker-replica"
    broker.sentinels["worker-1"].stop()
    broker.sentinels["worker-1"].start()
    assert broker.host_of_primary() == "broker-replica"

"""A Valkey with a replica, and sentinels that promote the replica when the primary is lost."""

import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import redis

from embedded.account import ENVIRONMENT, reachable_binaries, server_account, state_folder
from embedded.ports import free_port
from embedded.programs import (
    EmbeddedServerError,
    Program,
    log_tail,
    start_program,
    stop_program,
    wait_until,
)
from embedded.valkey import PROGRAM, EmbeddedValkey, binary_folder
from simulator.hosts.networks import Network

SERVICE: Final = "ledger"
"""The name by which sentinels know the pair."""
QUORUM: Final = 2
DOWN_MILLISECONDS: Final = 3_000
"""So long a primary does not answer before it counts as lost; a busy machine answers within it."""
FAILOVER_MILLISECONDS: Final = 10_000
ANSWER_SECONDS_MAX: Final = 2
START_SECONDS_MAX: Final = 20
PROMOTION_SECONDS_MAX: Final = 90


class Sentinel:
    """One sentinel; what it learns stays in its file when it is started again.

    Args:
        folder: For its state.
        address: Where it listens.
        primary: That it watches at first.
    """

    def __init__(self, folder: Path, *, address: str, primary: EmbeddedValkey) -> None:
        """Set account and paths; nothing is started yet."""
        self.account = server_account()
        self.folder = state_folder(self.account, folder.absolute())
        self.address = address
        self.port = free_port()
        self.log = self.folder / "sentinel.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._primary = primary
        self._configuration = self.folder / "sentinel.conf"
        self._binaries = reachable_binaries(
            self.account, binary_folder(), program=PROGRAM, state=self.folder
        )

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            EmbeddedServerError: It did not answer in time, or ended.
        """
        if not self._configuration.exists():
            self._write_configuration()
        process = self.process = start_program(self._program())
        wait_until(
            lambda: process.poll() is not None or bool(self.primary()),
            timeout_seconds=START_SECONDS_MAX,
        )
        if not self.primary():
            self.stop()
            raise EmbeddedServerError(f"A sentinel did not start:\n{log_tail(self.log)}")

    def stop(self) -> None:
        """Stop it and wait for its end."""
        if self.process is not None:
            stop_program(self.process, self._program())

    def primary(self) -> str:
        """Return the address of the primary that it names; "" while it does not answer."""
        with (
            redis.Redis(
                host=self.address,
                port=self.port,
                socket_timeout=ANSWER_SECONDS_MAX,
                decode_responses=True,
            ) as client,
            suppress(redis.RedisError),
        ):
            found = client.sentinel_get_master_addr_by_name(SERVICE)
            return "" if found is None else str(found[0])
        return ""

    def _program(self) -> Program:
        return Program(
            name="sentinel",
            command=(str(self._binaries / PROGRAM), str(self._configuration), "--sentinel"),
            log=self.log,
            state=self.folder,
            environment=ENVIRONMENT,
            account=self.account,
        )

    def _write_configuration(self) -> None:
        primary = self._primary
        self._configuration.touch(mode=0o600)
        self._configuration.write_text(
            f"""bind {self.address}
port {self.port}
protected-mode no
dir "{self.folder}"
sentinel announce-ip {self.address}
sentinel announce-port {self.port}
sentinel monitor {SERVICE} {primary.address} {primary.port} {QUORUM}
sentinel auth-pass {SERVICE} {primary.password()}
sentinel down-after-milliseconds {SERVICE} {DOWN_MILLISECONDS}
sentinel failover-timeout {SERVICE} {FAILOVER_MILLISECONDS}
""",
            encoding="utf-8",
        )
        self.account.own(self._configuration)


class Broker:
    """What messages go through: a Valkey, or one with a replica that sentinels promote.

    A server that is started again has its first role until the sentinels correct it.

    Args:
        hosts: The folder and the address of the Valkey by host, and of its replica if there is one.
        watchers: The same of the hosts of sentinels; none without a replica.
    """

    def __init__(
        self, hosts: Mapping[str, tuple[Path, str]], *, watchers: Mapping[str, tuple[Path, str]]
    ) -> None:
        """Make the servers; nothing is started yet."""
        self.valkeys: dict[str, EmbeddedValkey] = {}
        for name, (folder, address) in hosts.items():
            self.valkeys[name] = EmbeddedValkey(
                folder / "valkey",
                address=address,
                port=free_port(),
                password=self.primary.password() if self.valkeys else "",
            )
        if watchers:
            for valkey in self.valkeys.values():
                valkey.lines = self._replication(valkey)
        self.sentinels = {
            name: Sentinel(folder / "sentinel", address=address, primary=self.primary)
            for name, (folder, address) in watchers.items()
        }

    @property
    def primary(self) -> EmbeddedValkey:
        """Return the one that is the primary at first."""
        return next(iter(self.valkeys.values()))

    @property
    def servers(self) -> dict[str, EmbeddedValkey | Sentinel]:
        """Return every server by its host, in the order of their start."""
        return {**self.valkeys, **self.sentinels}

    def variables(self) -> dict[str, str]:
        """Return the variables with which it is reached without a network between hosts."""
        url = f"redis://:{self.primary.password()}@"
        if not self.sentinels:
            return {"REDIS_URL": self.primary.url()}
        sentinels = [f"{one.address}:{one.port}" for one in self.sentinels.values()]
        return {"REDIS_URL": f"{url}{SERVICE}/0", "REDIS_SENTINELS": ",".join(sentinels)}

    def joined(self, network: Network, host: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the variables of a host, and where it reaches what sentinels name."""
        links = {
            valkey.address: network.join(host, name, valkey.port)
            for name, valkey in self.valkeys.items()
        }
        if not self.sentinels:
            place = f"{links[self.primary.address]}:{self.primary.port}"
            return {"REDIS_URL": f"redis://:{self.primary.password()}@{place}/0"}, {}
        sentinels = [
            f"{one.address if name == host else network.join(host, name, one.port)}:{one.port}"
            for name, one in self.sentinels.items()
        ]
        return self.variables() | {"REDIS_SENTINELS": ",".join(sentinels)}, links

    def host_of_primary(self) -> str:
        """Return the host of the primary, as the first sentinel that answers has it."""
        named = next(filter(None, (one.primary() for one in self.sentinels.values())))
        return next(name for name, valkey in self.valkeys.items() if valkey.address == named)

    def await_promotion(self, *, lost: str) -> None:
        """Wait until every sentinel names another primary than the one on a host.

        Raises:
            EmbeddedServerError: They do not in time.
        """
        former = self.valkeys[lost].address

        def is_promoted() -> bool:
            return all(one.primary() not in {"", former} for one in self.sentinels.values())

        if not wait_until(is_promoted, timeout_seconds=PROMOTION_SECONDS_MAX):
            raise EmbeddedServerError("The sentinels promoted no replica.")

    def _replication(self, valkey: EmbeddedValkey) -> tuple[str, ...]:
        first = self.primary
        of = () if valkey is first else (f"replicaof {first.address} {first.port}",)
        return (
            f"masterauth {first.password()}",
            f"replica-announce-ip {valkey.address}",
            f"replica-announce-port {valkey.port}",
            *of,
        )

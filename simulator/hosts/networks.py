"""Networks between hosts: addresses of 127.0.0.0/8 behind proxies, or Linux network namespaces."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from simulator.hosts.links import Link, LinkCut, LinkLoop

NUMBERS: Final = 250
"""Networks that runs on one machine may have at once, by their process ids."""
CLONE_NEWNET: Final = 0x40000000
COMMAND_SECONDS_MAX: Final = 20
NAMESPACES: Final = Path("/run/netns")
OWN: Final = Path("/proc/thread-self/ns/net")


class Network(Protocol):
    """What joins the hosts; a link is what one host reaches of another."""

    @property
    def title(self) -> str:
        """Return what it is made of."""
        ...

    def add(self, host: str) -> str:
        """Make a host and return its own address, on which its servers listen."""
        ...

    def join(self, origin: str, target: str, port: int) -> str:
        """Return the address at which a host reaches a port of another."""
        ...

    def inside(self, host: str) -> AbstractContextManager[None]:
        """Let programs that are started in the block run on a host."""
        ...

    def cut(self, origin: str, target: str, how: LinkCut) -> None:
        """Cut the link from one host to another."""
        ...

    def mend(self, origin: str, target: str) -> None:
        """Mend that link."""
        ...

    def power_off(self, host: str) -> None:
        """Let nothing come from a host or go to it, silently."""
        ...

    def power_on(self, host: str) -> None:
        """Join a host again; it knows nothing of earlier connections."""
        ...

    def close(self) -> None:
        """Remove what was made."""
        ...


class LoopbackNetwork:
    """Hosts are addresses of 127.0.0.0/8; each link is a proxy at an address of its own."""

    title = "addresses of 127.0.0.0/8, each link a TCP proxy"

    def __init__(self) -> None:
        """Start the thread of the links."""
        self._loop = LinkLoop()
        self._prefix = f"127.{1 + os.getpid() % NUMBERS}"
        self._numbers: dict[str, int] = {}
        self._links: dict[tuple[str, str], list[Link]] = {}

    def add(self, host: str) -> str:
        """Number a host and return its own address."""
        number = self._numbers[host] = len(self._numbers) + 1
        return f"{self._prefix}.0.{number}"

    def join(self, origin: str, target: str, port: int) -> str:
        """Open a proxy from one host to a port of another, and return its address."""
        there, here = self._numbers[target], self._numbers[origin]
        address = f"{self._prefix}.{here}.{there}"
        link = Link(listen=(address, port), target=(f"{self._prefix}.0.{there}", port))
        self._loop.run(link.open())
        self._links.setdefault((origin, target), []).append(link)
        return address

    def inside(self, host: str) -> AbstractContextManager[None]:  # noqa: ARG002 - As the protocol has it.
        """Do nothing: every program reaches every address."""
        return nullcontext()

    def cut(self, origin: str, target: str, how: LinkCut) -> None:
        """Cut the proxies from one host to another."""
        for link in self._links[origin, target]:
            self._loop.run(link.cut(how))

    def mend(self, origin: str, target: str) -> None:
        """Let them pass data again."""
        for link in self._links[origin, target]:
            self._loop.run(link.open())

    def power_off(self, host: str) -> None:
        """Silence the links from and to a host."""
        for link in self._of(host):
            self._loop.run(link.cut(LinkCut.SILENT))

    def power_on(self, host: str) -> None:
        """Reset the connections of its links and open them."""
        for link in self._of(host):
            self._loop.run(link.reset())
            self._loop.run(link.open())

    def close(self) -> None:
        """Do nothing: the thread ends with the process."""

    def _of(self, host: str) -> list[Link]:
        return [link for ends, links in self._links.items() if host in ends for link in links]


class NamespaceNetwork:
    """Hosts are network namespaces, joined by a bridge; needs root and iproute2."""

    title = "network namespaces"

    def __init__(self) -> None:
        """Make the bridge.

        Raises:
            subprocess.CalledProcessError: This machine does not allow it.
        """
        pid = os.getpid()
        self._mark = f"gl{pid}"
        self._prefix = f"10.{200 + pid % 50}.{pid // 50 % NUMBERS}"
        self._numbers: dict[str, int] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        _ip("link", "add", self._mark, "type", "bridge")
        _ip("address", "add", f"{self._prefix}.254/24", "dev", self._mark)
        _ip("link", "set", self._mark, "up")

    @staticmethod
    def refusal() -> str:
        """Return why this machine allows no namespaces, "" if it does."""
        if shutil.which("ip") is None:
            return "iproute2 is not installed"
        name = f"gl{os.getpid()}-try"
        try:
            _ip("netns", "add", name)
            _ip("netns", "delete", name)
        except subprocess.CalledProcessError as error:
            return str(error.stderr).strip()
        return ""

    def add(self, host: str) -> str:
        """Make a namespace with an address at the bridge."""
        number = self._numbers[host] = len(self._numbers) + 1
        space, outer, inner = self._space(host), self._outer(host), f"i{self._mark}-{number}"
        address = f"{self._prefix}.{number}"
        _ip("netns", "add", space)
        _ip("link", "add", outer, "type", "veth", "peer", "name", inner)
        _ip("link", "set", inner, "netns", space)
        _ip("link", "set", outer, "master", self._mark, "up")
        _ip("-n", space, "address", "add", f"{address}/24", "dev", inner)
        _ip("-n", space, "link", "set", inner, "up")
        _ip("-n", space, "link", "set", "lo", "up")
        return address

    def join(self, origin: str, target: str, port: int) -> str:  # noqa: ARG002 - As the protocol has it.
        """Return the address of the other host: the bridge joins them."""
        return f"{self._prefix}.{self._numbers[target]}"

    @contextmanager
    def inside(self, host: str) -> Iterator[None]:
        """Move this thread into the namespace of a host, where what it starts stays."""
        # Read before: it names the namespace that this thread is in.
        with OWN.open("rb") as home:
            with (NAMESPACES / self._space(host)).open("rb") as space:
                self._enter(space)
            try:
                yield
            finally:
                self._enter(home)

    def cut(self, origin: str, target: str, how: LinkCut) -> None:
        """Let the one have no route to the other; silent: let the other's answers be lost."""
        first, second = self._space(origin), self._space(target)
        ours, theirs = (f"{self._prefix}.{self._numbers[name]}" for name in (origin, target))
        if how is LinkCut.SILENT:
            _ip("-n", second, "route", "add", "blackhole", ours)
            return
        _ip("-n", first, "route", "add", "unreachable", theirs)
        # Where the kernel allows it, open connections end as well.
        _run("ip", "netns", "exec", first, "ss", "--kill", "dst", theirs)

    def mend(self, origin: str, target: str) -> None:
        """Remove both routes; one of them is there."""
        ours, theirs = (f"{self._prefix}.{self._numbers[name]}" for name in (origin, target))
        done = [
            subprocess.run(  # noqa: S603 - Fixed program, our own names.
                ("ip", "-n", self._space(host), "route", "delete", kind, to),  # noqa: S607 - On PATH.
                check=False,
                capture_output=True,
                timeout=COMMAND_SECONDS_MAX,
            ).returncode
            for host, kind, to in ((target, "blackhole", ours), (origin, "unreachable", theirs))
        ]
        if all(done):
            raise RuntimeError(f"The link from {origin} to {target} was not cut.")

    def power_off(self, host: str) -> None:
        """Take the cable out."""
        _ip("link", "set", self._outer(host), "down")

    def power_on(self, host: str) -> None:
        """Put the cable in again."""
        _ip("link", "set", self._outer(host), "up")

    def close(self) -> None:
        """Remove namespaces and bridge."""
        for host in self._numbers:
            _ip("netns", "delete", self._space(host))
        _ip("link", "delete", self._mark)

    def _enter(self, space: BinaryIO) -> None:
        if self._libc.setns(space.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"{space.name} cannot be entered.")

    def _space(self, host: str) -> str:
        return f"{self._mark}-{host}"

    def _outer(self, host: str) -> str:
        return f"o{self._mark}-{self._numbers[host]}"


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> None:
    subprocess.run(  # noqa: S603 - Fixed programs, our own names.
        command, check=True, capture_output=True, text=True, timeout=COMMAND_SECONDS_MAX
    )

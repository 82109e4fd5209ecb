"""Free ports on 127.0.0.1, so that two checkouts run side by side."""

import json
import socket
from pathlib import Path
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def free_port(address: str = LOOPBACK) -> int:
    """Return a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Ports:
    """The ports of one checkout, kept in a file so that each stays the same while it is free.

    Stored addresses, such as a cluster's Prometheus URL, then outlive a restart.
    """

    def __init__(self, path: Path) -> None:
        """Read what was used the last time; a missing or broken file is an empty one."""
        self.path = path
        self.by_name: dict[str, int] = {}
        if path.exists():
            self.by_name = _read(path)

    def take(self, name: str, *, wanted: int = 0) -> int:
        """Return a port for a server and remember it.

        Args:
            name: The server.
            wanted: A port that must be used; 0 for the last one, or any that is free.
        """
        last = self.by_name.get(name, 0)
        port = wanted or (last if last and is_free(last) else free_port())
        self.by_name[name] = port
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.by_name, indent=2) + "\n", encoding="utf-8")
        partial.replace(self.path)
        return port


def _read(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(name): port for name, port in found.items() if isinstance(port, int)}

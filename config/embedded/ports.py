"""Free ports on 127.0.0.1, so that two checkouts run side by side."""

import socket


def free_port() -> int:
    """Return a TCP port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

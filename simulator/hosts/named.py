"""Run a module of Python under a host's own names of other hosts, as its /etc/hosts has them.

`python -m simulator.hosts.named '{"prometheus-1": "127.9.3.7"}' celery -A config worker`
"""

import json
import runpy
import socket
import sys
from collections.abc import Mapping
from typing import Any


def name_hosts(addresses: Mapping[str, str]) -> None:
    """Have this process and its children resolve some names to these addresses."""
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, *further: Any, **named: Any) -> Any:  # noqa: ANN401 - As of the library.
        return resolve(addresses.get(host, host), *further, **named)

    socket.getaddrinfo = getaddrinfo


def main() -> None:
    """Become the module that is named after the names."""
    addresses, module = sys.argv[1:3]
    name_hosts(json.loads(addresses))
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

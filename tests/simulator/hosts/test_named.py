"""A host's own names of other hosts."""

import socket

import pytest

from simulator.hosts.named import name_hosts


def test_a_host_resolves_its_own_names_and_all_others_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", socket.getaddrinfo)

    name_hosts({"prometheus-hopper-1.test": "127.9.3.7"})

    found = {
        name: socket.getaddrinfo(name, 9090, type=socket.SOCK_STREAM)[0][4]
        for name in ("prometheus-hopper-1.test", "127.0.0.1")
    }
    assert found == {
        "prometheus-hopper-1.test": ("127.9.3.7", 9090),
        "127.0.0.1": ("127.0.0.1", 9090),
    }

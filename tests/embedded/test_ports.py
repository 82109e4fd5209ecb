"""Ports: free, remembered, and taken again only while nobody else has them."""

import json
import socket
from pathlib import Path

import pytest

from embedded.ports import Ports, free_port, is_free


def test_a_free_port_can_be_bound() -> None:
    port = free_port()

    with socket.socket() as server:
        server.bind(("127.0.0.1", port))

        assert is_free(port) is False
    assert is_free(port) is True


def test_a_server_gets_the_same_port_the_next_time(tmp_path: Path) -> None:
    first = Ports(tmp_path / "ports.json").take("postgres")

    assert Ports(tmp_path / "ports.json").take("postgres") == first
    assert json.loads((tmp_path / "ports.json").read_text()) == {"postgres": first}


def test_a_port_that_somebody_else_took_is_not_used_again(tmp_path: Path) -> None:
    ports = Ports(tmp_path / "ports.json")
    first = ports.take("web")

    with socket.socket() as other:
        other.bind(("127.0.0.1", first))
        other.listen()

        assert ports.take("web") != first


def test_a_wanted_port_is_given_and_remembered(tmp_path: Path) -> None:
    wanted = free_port()

    assert Ports(tmp_path / "ports.json").take("web", wanted=wanted) == wanted
    assert Ports(tmp_path / "ports.json").by_name == {"web": wanted}


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"web": "x"}'])
def test_a_broken_file_is_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "ports.json").write_text(text)

    assert Ports(tmp_path / "ports.json").by_name == {}

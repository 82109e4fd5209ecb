"""Where a webhook may go, reported by a real receiver and by what never leaves this machine."""

import ipaddress
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenants.adapters.guarded import GuardedPoster
from tenants.domain.errors import SourceUnavailableError
from tests.support.tenants.receivers import Receiver, make_certificate, receiving

LOCAL: dict[str, Any] = {
    "allowed_networks": ("127.0.0.0/8", "::1/128"),
    "clear_text_hosts": ("127.0.0.1",),
}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def post(poster: GuardedPoster, url: str) -> int:
    return poster.post(url, body=b"{}", headers={"Content-Type": "application/json"})


def refused(poster: GuardedPoster, url: str) -> str:
    with pytest.raises(SourceUnavailableError) as error:
        post(poster, url)
    return error.value.reason


def never_connect(*_: object, **__: object) -> socket.socket:
    raise AssertionError("connected")


def test_a_receiver_gets_the_body_and_the_headers(receiver: Receiver) -> None:
    status = post(GuardedPoster(**LOCAL), f"http://127.0.0.1:{receiver.port}/hook/1?a=b")

    assert status == 204
    (got,) = receiver.posts
    assert (got.path, got.body) == ("/hook/1?a=b", b"{}")
    assert got.headers == {
        "Host": f"127.0.0.1:{receiver.port}",
        "Connection": "close",
        "Content-Length": "2",
        "Content-Type": "application/json",
    }


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    there = f"http://127.0.0.1:{receiver.port}/other"
    receiver.answer = f"HTTP/1.1 302 Found\r\nLocation: {there}\r\n\r\n".encode()

    status = post(GuardedPoster(**LOCAL), f"http://127.0.0.1:{receiver.port}/")

    assert status == 302
    assert [got.path for got in receiver.posts] == ["/"]


def test_a_proxy_of_the_environment_is_not_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")

    assert post(GuardedPoster(**LOCAL), f"http://127.0.0.1:{receiver.port}/") == 204


def test_over_tls_the_certificate_is_checked_against_the_name(certificate: Path) -> None:
    with receiving(certificate=certificate) as receiver:
        url = f"https://localhost:{receiver.port}/"
        trusting = GuardedPoster(**LOCAL, authority_file=str(certificate))

        assert post(trusting, url) == 204
        assert refused(GuardedPoster(**LOCAL), url) == "unreachable"
        assert refused(trusting, f"https://127.0.0.1:{receiver.port}/") == "unreachable"
        assert len(receiver.posts) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "http://hooks.example.com/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
    ],
)
def test_only_named_hosts_are_reported_over_http(url: str) -> None:
    assert refused(GuardedPoster(**LOCAL), url) == "not_https"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",  # noqa: S104 - An address to refuse.
        "224.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "2130706433",
        "0x7f.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:169.254.169.254]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "[fc00::1]",
        "[ff02::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[::127.0.0.1]",
        "[::8.8.8.8]",
        "[::ffff:0:127.0.0.1]",
        "[::ffff:0:8.8.8.8]",
        "[fec0::1]",
        "[64:ff9b::808:808]",
        "[64:ff9b:1::7f00:1]",
        "[2001::7f00:1]",
        "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
        "[2001:10::1]",
        "[2002:808:808::]",
        "[100::1]",
        "[1fff::1]",
        "[4000::1]",
        "[5f00::1]",
        "[e000::1]",
        "192.88.99.1",
        "240.0.0.1",
        "168.63.129.16",
        "[::ffff:168.63.129.16]",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[2606:4700::5efe:808:808]",
        "[2606:4700::200:5efe:808:808]",
    ],
)
def test_an_address_that_is_not_public_is_never_connected_to(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", never_connect)

    assert refused(GuardedPoster(), f"https://{host}/") == "address_forbidden"


@pytest.mark.parametrize(
    "host",
    [
        "168.63.129.16",
        "169.254.169.254",
        "100.100.100.200",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[::169.254.169.254]",
        "[::ffff:0:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[2001:0:a9fe:a9fe::1]",
        "[2001::5601:5601]",
        "169.254.170.23",
        "[fd00:ec2::23]",
        "169.254.42.42",
        "[fd00:42::42]",
        "169.254.0.23",
        "[fe80::a9fe:a9fe]",
        "[64:ff9b:1:a9fe:a9:fe00::]",
        "[64:ff9b:1:a9fe:a9:fe00:1:2]",
        "[64:ff9b:1:12a9:fe:a9fe::]",
        "[64:ff9b:1:1234:a9:fea9:fe00:0]",
        "[64:ff9b:1:1234:5678:9abc:a9fe:a9fe]",
        "[fe80::5efe:a9fe:a9fe]",
        "[2606:4700::200:5efe:a9fe:a9fe]",
        "[fd12::5efe:a9fe:aa17]",
    ],
)
def test_what_a_cloud_shows_its_machines_is_reached_by_nobody(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "create_connection", never_connect)
    poster = GuardedPoster(allowed_networks=("0.0.0.0/0", "::/0"))

    assert refused(poster, f"https://{host}/") == "address_forbidden"


@pytest.mark.parametrize(
    ("host", "networks"),
    [
        ("93.184.216.34", ()),
        ("[::ffff:93.184.216.34]", ()),
        ("[2606:4700::1111]", ()),
        ("[2a00:1450:4001::1]", ()),
        ("10.1.2.3", ("10.1.0.0/16",)),
        ("[::ffff:10.1.2.3]", ("10.1.0.0/16",)),
        ("[fd12::1]", ("fd12::/16",)),
        ("[64:ff9b::a00:1]", ("64:ff9b::/96",)),
        ("[64:ff9b:1::a00:1]", ("64:ff9b:1::/48",)),
        ("[fd12::5efe:a00:1]", ("fd12::/16",)),
        ("[2606:4700::5eff:a9fe:a9fe]", ()),
    ],
)
def test_what_is_public_or_allowed_is_connected_to(
    host: str, networks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = []

    def connect(address: tuple[str, int], **_: object) -> socket.socket:
        reached.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "create_connection", connect)

    reason = refused(GuardedPoster(allowed_networks=networks), f"https://{host}/")

    assert reason == "unreachable"
    assert reached == [(host.strip("[]"), 443)]


@pytest.mark.soak
@settings(deadline=None)
@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_of_ipv6_only_what_is_handed_out_for_the_internet_is_reached(
    address: ipaddress.IPv6Address,
) -> None:
    is_reached = GuardedPoster().may_reach(str(address))

    assert not is_reached or address.ipv4_mapped or address in ipaddress.ip_network("2000::/3")


@pytest.mark.soak
@settings(deadline=None)
@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_an_ipv4_address_inside_an_ipv6_one_opens_no_further_endpoint(
    address: ipaddress.IPv4Address,
) -> None:
    poster = GuardedPoster()
    bits = int(address)

    assert poster.may_reach(f"::ffff:{address}") is poster.may_reach(str(address))
    for form in (
        bits,
        0xFFFF_0000 << 32 | bits,
        0x0064_FF9B << 96 | bits,
        0x0064_FF9B_0001 << 80 | bits,
        0x0064_FF9B_0001 << 80 | (bits >> 16) << 64 | (bits & 0xFFFF) << 40,
        0x0064_FF9B_0001 << 80 | (bits >> 24) << 64 | (bits & 0xFF_FFFF) << 32,
        0x0064_FF9B_0001 << 80 | bits << 24,
        0x2606_4700 << 96 | 0x0000_5EFE << 32 | bits,
        0x2606_4700 << 96 | 0x0200_5EFE << 32 | bits,
        0x2002 << 112 | bits << 80,
        0x2001_0000 << 96 | bits ^ 0xFFFF_FFFF,
    ):
        assert not poster.may_reach(str(ipaddress.IPv6Address(form)))


def test_one_bad_address_among_good_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", 443)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)

    assert refused(GuardedPoster(), "https://hooks.example.com/") == "address_forbidden"


def test_the_connection_is_made_to_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["127.0.0.1", "127.0.0.2"])

    def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host == "127.0.0.1":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    poster = GuardedPoster(allowed_networks=("127.0.0.1/32",), clear_text_hosts=("rebinding",))

    assert post(poster, f"http://rebinding:{receiver.port}/") == 204
    assert refused(poster, f"http://rebinding:{receiver.port}/") == "address_forbidden"
    assert len(receiver.posts) == 1


def test_a_name_that_nobody_knows_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> object:
        raise socket.gaierror("unknown")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)

    assert refused(GuardedPoster(), "https://nowhere.example.com/") == "unreachable"


def test_who_resolves_names_slowly_is_left_after_the_time_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()

    def resolve(*_: object, **__: object) -> list[object]:
        released.wait(timeout=10)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    begin = time.monotonic()

    reason = refused(GuardedPoster(timeout_seconds=1), "https://slow.example.com/")

    assert reason == "timeout"
    assert time.monotonic() - begin < 3
    released.set()


def test_who_does_not_answer_is_left_after_the_time_limit(receiver: Receiver) -> None:
    receiver.answer = None
    begin = time.monotonic()

    reason = refused(
        GuardedPoster(**LOCAL, timeout_seconds=1), f"http://127.0.0.1:{receiver.port}/"
    )

    assert reason == "timeout"
    assert time.monotonic() - begin < 3


def test_who_answers_drop_by_drop_gains_no_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        poster = GuardedPoster(**LOCAL, timeout_seconds=1)
        begin = time.monotonic()

        reason = refused(poster, f"http://127.0.0.1:{server.getsockname()[1]}/")

    assert reason == "timeout"
    assert time.monotonic() - begin < 3


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"hello\r\n",
        b"HTTP/1.1 2x0 OK\r\n",
        b"HTTP/1.1 20\r\n",
        b"SSH-2.0 200\r\n",
        b"x" * 9_000,
    ],
)
def test_what_is_not_http_is_not_taken_for_an_answer(receiver: Receiver, answer: bytes) -> None:
    receiver.answer = answer

    reason = refused(GuardedPoster(**LOCAL), f"http://127.0.0.1:{receiver.port}/")

    assert reason == "bad_answer"


def test_a_closed_port_is_unreachable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]

    assert refused(GuardedPoster(**LOCAL), f"http://127.0.0.1:{port}/") == "unreachable"

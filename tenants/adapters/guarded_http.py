"""One POST to an address that a stranger may have chosen: where it may go, and how long.

The host is resolved once, every address it has is checked, and the connection is made to a checked
address: a name that changes its mind between check and use gains nothing. No redirect is followed,
no proxy is asked, and of the answer only the status is read, all within one deadline.
Source: OWASP Server-Side Request Forgery Prevention; RFC 6890 for the ranges.
"""

import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import Final
from urllib.parse import SplitResult, urlsplit

from tenants.adapters.guarded_addresses import (
    Network,
    is_public,
    read_address,
    serves_credentials,
)
from tenants.domain.errors import SourceUnavailableError

STATUS_LINE_BYTES_MAX: Final = 4_096
_RECEIVE_BYTES: Final = 1_024


class GuardedPoster:
    """Posts to public addresses, and to private ones only where the operator allows their range."""

    def __init__(
        self,
        *,
        allowed_networks: Sequence[str] = (),
        clear_text_hosts: Sequence[str] = (),
        timeout_seconds: int = 5,
        authority_file: str = "",
    ) -> None:
        """Keep what is allowed.

        Args:
            allowed_networks: Ranges such as "10.1.0.0/16" that may be reached although private.
            clear_text_hosts: Hosts that may be reached over http.
            timeout_seconds: For resolving, connecting, sending and the status together.
            authority_file: Certificates to trust beside the system's; "" for none.
        """
        self.allowed: tuple[Network, ...] = tuple(map(ipaddress.ip_network, allowed_networks))
        self.clear_text_hosts = tuple(clear_text_hosts)
        self.timeout_seconds = timeout_seconds
        self.context = ssl.create_default_context()
        if authority_file:
            self.context.load_verify_locations(authority_file)

    def post(self, url: str, *, body: bytes, headers: Mapping[str, str]) -> int:
        """Return the status a receiver answers.

        Raises:
            SourceUnavailableError: It may not be reached, does not answer in time, or not in HTTP.
        """
        parts = urlsplit(url)
        deadline = time.monotonic() + self.timeout_seconds
        try:
            with self._connection(parts, deadline=deadline) as connection:
                connection.settimeout(_left(deadline))
                connection.sendall(_request(parts, body=body, headers=headers))
                return _status(connection, deadline=deadline)
        except TimeoutError as error:
            raise SourceUnavailableError(
                f"It did not answer within {self.timeout_seconds} s.", reason="timeout"
            ) from error
        except (OSError, UnicodeError) as error:
            raise SourceUnavailableError(
                f"It could not be reached: {type(error).__name__}.", reason="unreachable"
            ) from error

    def _connection(self, parts: SplitResult, *, deadline: float) -> socket.socket:
        host = parts.hostname or ""
        is_clear_text = parts.scheme == "http" and host in self.clear_text_hosts
        if parts.scheme != "https" and not is_clear_text:
            raise SourceUnavailableError("Only https is spoken here.", reason="not_https")
        port = parts.port or (80 if is_clear_text else 443)
        address = self._checked_address(host, port, deadline=deadline)
        plain = socket.create_connection((address, port), timeout=_left(deadline))
        if is_clear_text:
            return plain
        try:
            plain.settimeout(_left(deadline))
            return self.context.wrap_socket(plain, server_hostname=host)
        except (OSError, ValueError):
            plain.close()
            raise

    def _checked_address(self, host: str, port: int, *, deadline: float) -> str:
        """Return an address of a host, all of whose addresses may be reached."""
        addresses = _resolve(host, port, deadline=deadline)
        for address in addresses:
            if not self.may_reach(address):
                raise SourceUnavailableError(
                    "Its host has an address that is not public.", reason="address_forbidden"
                )
        return addresses[0]

    def may_reach(self, text: str) -> bool:
        """Whether an address is public, or in a range the operator allows.

        Args:
            text: An address without a zone.
        """
        address = read_address(text)
        if serves_credentials(address):
            return False
        if any(address in network for network in self.allowed):
            return True
        return is_public(address)


def _resolve(host: str, port: int, *, deadline: float) -> list[str]:
    """Return the addresses of a host.

    The system's resolver takes no time limit, so that it is asked in a thread of its own, which is
    left to end by itself.
    """
    answer: Future[list[str]] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, ValueError) as error:
            answer.set_exception(error)
        else:
            answer.set_result([str(entry[4][0]).split("%", 1)[0] for entry in found])

    Thread(target=ask, daemon=True).start()
    return answer.result(timeout=_left(deadline))


def _left(deadline: float) -> float:
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _request(parts: SplitResult, *, body: bytes, headers: Mapping[str, str]) -> bytes:
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Connection: close",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body


def _status(connection: socket.socket, *, deadline: float) -> int:
    """Return the status of the first line of an answer; the rest is not read."""
    line = b""
    while b"\n" not in line:
        connection.settimeout(_left(deadline))
        received = connection.recv(_RECEIVE_BYTES)
        line += received
        if not received or len(line) > STATUS_LINE_BYTES_MAX:
            break
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    if not version.startswith(b"HTTP/1.") or len(code) != len("200") or not code.isdigit():
        raise SourceUnavailableError("What it answers is not HTTP.", reason="bad_answer")
    return int(code)

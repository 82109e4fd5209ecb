"""The load on admission: API servers that keep their connections, in one process and one thread.

Requests are bytes before the clock starts and answers are read as bytes, so that the load takes
little of the machine it shares. An answer counts only when the ledger decided: what was answered
because it could not be asked is a failure, and so is whatever is no answer at all.
"""

import gc
import re
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any, Final

CONNECTIONS: Final = 16
DECIDED: Final = frozenset({"allowed", "limit_reached"})
SILENCE_SECONDS: Final = 30
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
DECISION = re.compile(rb'"decision": *"([a-z_]+)"')
Reason = Callable[[bytes], str]
"""Reads the decision out of an answer."""


@dataclass
class Reported:
    """What one run found.

    Attributes:
        milliseconds: From when each question was due to its answer, decided ones only.
        reasons: How often each decision was answered, "status_<code>" for what was no answer.
        seconds: From the first question to the last answer.
        cpu_seconds: CPU time of the load itself.
    """

    milliseconds: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: float = 0
    cpu_seconds: float = 0

    @property
    def failures(self) -> int:
        """How many questions the ledger did not decide."""
        return sum(count for reason, count in self.reasons.items() if reason not in DECIDED)

    @property
    def rate(self) -> float:
        """Decisions a second."""
        return len(self.milliseconds) / self.seconds

    def share(self, percent: int) -> float:
        """Return the milliseconds within which so many percent were answered.

        Where the ledger decided nothing, the longest wait there is.
        """
        ordered = sorted(self.milliseconds) or [SILENCE_SECONDS * 1_000.0]
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def request(path: str, body: bytes) -> bytes:
    """Return a request as it goes over the wire."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def reason_of(answer: bytes) -> str:
    """Return the decision in a response, or the status of another response."""
    if not answer.startswith(b"HTTP/1.1 200"):
        return f"status_{answer[9:12].decode(errors='replace')}"
    found = DECISION.search(answer)
    return found.group(1).decode() if found else "no_decision"


def bare_reason(answer: bytes) -> str:
    """Return "allowed" for whatever the bare view answers with 200."""
    return "allowed" if answer.startswith(b"HTTP/1.1 200") else "no_decision"


def play(port: int, requests: list[bytes], *, rate: float | None, reason: Reason) -> Reported:
    """Send the requests in a separate process; see `_play`."""
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_reported, args=(sender, port, requests, rate, reason))
    process.start()
    sender.close()  # So that a load that dies is noticed here.
    reported: Reported = receiver.recv()
    process.join()
    return reported


def _reported(
    sender: Any,  # noqa: ANN401 - A connection of either kind.
    port: int,
    requests: list[bytes],
    rate: float | None,
    reason: Reason,
) -> None:
    # To look through all that was inherited for garbage takes a tenth of a second, and this process
    # ends with its run.
    gc.disable()
    sender.send(_Load(port, requests, rate=rate, reason=reason).run())


class _Load:
    """One run: an open loop at a rate, or a closed loop, one request at a time a connection.

    Args:
        port: On loopback.
        requests: As they go over the wire, in order.
        rate: Requests a second; None for a closed loop.
        reason: Reads the decision out of an answer.
    """

    def __init__(
        self, port: int, requests: list[bytes], *, rate: float | None, reason: Reason
    ) -> None:
        self._selector = selectors.DefaultSelector()
        self._free: deque[socket.socket] = deque()
        self._asked: dict[socket.socket, tuple[float, bytearray]] = {}
        self._requests, self._rate, self._reason = requests, rate, reason
        self._reported = Reported()
        self._answered: list[tuple[float, bytes]] = []
        for _ in range(CONNECTIONS):
            one = socket.create_connection(("127.0.0.1", port), timeout=SILENCE_SECONDS)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(one, selectors.EVENT_READ)
            self._free.append(one)

    def run(self) -> Reported:
        """Send all requests and return the responses."""
        cpu, begin = time.process_time(), time.perf_counter()
        turns = deque(self._due(begin))
        while turns or self._asked:
            now = time.perf_counter()
            while turns and self._free and (self._rate is None or turns[0][0] <= now):
                due, asked = turns.popleft()
                self._ask(now if self._rate is None else due, asked)
            self._listen(self._patience(turns[0][0] - now if turns and self._free else None))
        self._reported.seconds = time.perf_counter() - begin
        self._reported.cpu_seconds = time.process_time() - cpu
        # Responses are parsed only now, to leave the CPU to the server during the measurement.
        for seconds, answer in self._answered:
            reason = self._reason(answer)
            self._reported.reasons[reason] += 1
            if reason in DECIDED:
                self._reported.milliseconds.append(seconds * 1_000)
        self._selector.close()
        for one in self._free:
            one.close()
        return self._reported

    def _due(self, begin: float) -> Iterator[tuple[float, bytes]]:
        for number, asked in enumerate(self._requests):
            yield begin + (number / self._rate if self._rate else 0), asked

    @staticmethod
    def _patience(seconds: float | None) -> float:
        return SILENCE_SECONDS if seconds is None else max(0.0, seconds)

    def _ask(self, due: float, asked: bytes) -> None:
        one = self._free.popleft()
        self._asked[one] = (due, bytearray())
        one.sendall(asked)

    def _listen(self, seconds: float) -> None:
        ready = self._selector.select(seconds)
        if not ready and seconds == SILENCE_SECONDS:
            raise RuntimeError("The server is silent.")
        for key, _ in ready:
            self._read(key.fileobj)  # type: ignore[arg-type] # Only sockets are registered.

    def _read(self, one: socket.socket) -> None:
        due, answer = self._asked[one]
        got = one.recv(65_536)
        if not got:
            raise RuntimeError("The server closed a connection.")
        answer += got
        head = answer.find(b"\r\n\r\n")
        length = LENGTH.search(answer, 0, head) if head > 0 else None
        if length is None or len(answer) < head + 4 + int(length.group(1)):
            return
        self._answered.append((time.perf_counter() - due, bytes(answer)))
        del self._asked[one]
        self._free.append(one)

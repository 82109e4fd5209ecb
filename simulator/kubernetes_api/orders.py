"""Faults on order: what the next matching requests meet instead of an honest answer.

Orders are given to the server's Python object by whoever tests; nothing of it is on the wire.
"""

import threading
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.routing import Asked

ANSWER: Final = "answer"
DELAY: Final = "delay"
STALL: Final = "stall"
CUT: Final = "cut"
GARBAGE: Final = "garbage"
GARBAGE_BYTES: Final = b'{"type":"MODIFIED","object":{"kind":"Pod",<html>502</html>\n'
_REASONS: Final = {
    HTTPStatus.CONFLICT: "Conflict",
    HTTPStatus.GONE: "Expired",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
    HTTPStatus.INTERNAL_SERVER_ERROR: "InternalError",
    HTTPStatus.SERVICE_UNAVAILABLE: "ServiceUnavailable",
    HTTPStatus.GATEWAY_TIMEOUT: "Timeout",
}


@dataclass(frozen=True)
class Order:
    """One order.

    Attributes:
        kind: ANSWER, DELAY, STALL, CUT or GARBAGE.
        verb: "list", "watch", "create" and so on; "" for every verb.
        resource: "pods", "pods/eviction"; "" for every resource.
        times: How many requests are left that meet it.
        error: For ANSWER.
        seconds: For DELAY, and at most for STALL.
        events: For CUT and GARBAGE in a watch: how many events go out whole before.
    """

    kind: str
    verb: str
    resource: str
    times: int
    error: StatusError | None = None
    seconds: float = 0
    events: int = 0

    def fits(self, asked: Asked) -> bool:
        """Whether a request meets this order."""
        return self.verb in {"", asked.verb} and self.resource in {"", asked.resource}


class Orders:
    """The orders of one server, oldest first; any thread may give and take."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._orders: list[Order] = []
        self._is_released = threading.Event()
        self._is_forgotten = threading.Event()

    def answer(
        self,
        code: int,
        *,
        verb: str = "",
        resource: str = "",
        times: int = 1,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Answer the next requests with an error: 409, 410, 429, 500, 503 or 504.

        Args:
            code: Of the answer.
            verb: Of the requests; "" for every verb.
            resource: Of the requests; "" for every resource.
            times: How many requests.
            retry_after_seconds: Sent as Retry-After and in the Status; None for neither.
        """
        status = HTTPStatus(code)
        error = StatusError(
            code,
            _REASONS[status],
            f"{status.phrase}, on order",
            retry_after_seconds=retry_after_seconds,
        )
        self._give(Order(ANSWER, verb, resource, times, error=error))

    def delay(self, seconds: float, *, verb: str = "", resource: str = "", times: int = 1) -> None:
        """Answer the next requests honestly, but only after some seconds."""
        self._give(Order(DELAY, verb, resource, times, seconds=seconds))

    def stall(
        self, *, verb: str = "", resource: str = "", times: int = 1, seconds: float = 600
    ) -> None:
        """Hold the connection of the next requests without a word.

        A watch gets its headers first. The connection is closed on `release`, when the server
        stops, or after some seconds.
        """
        self._is_released.clear()
        self._give(Order(STALL, verb, resource, times, seconds=seconds))

    def cut(self, *, verb: str = "", resource: str = "", times: int = 1, events: int = 0) -> None:
        """Close the connection in the middle of a line: of a watch's event, or of the answer."""
        self._give(Order(CUT, verb, resource, times, events=events))

    def garble(
        self, *, verb: str = "", resource: str = "", times: int = 1, events: int = 0
    ) -> None:
        """Send what is no JSON: as a watch's next event, or as the whole answer."""
        self._give(Order(GARBAGE, verb, resource, times, events=events))

    def release(self) -> None:
        """Let go of the connections that are held."""
        self._is_released.set()

    def clear(self) -> None:
        """Forget every order, and let go of what is held."""
        with self._lock:
            self._orders.clear()
        self._is_forgotten.set()
        self.release()

    def hold(self, seconds: float) -> None:
        """Wait until released, or until the time is over."""
        self._is_released.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Wait some seconds, or until every order is forgotten."""
        self._is_forgotten.wait(seconds)

    def take(self, asked: Asked) -> Order | None:
        """Return the oldest order that a request meets, and count it; None for none."""
        with self._lock:
            for index, order in enumerate(self._orders):
                if order.fits(asked):
                    if order.times > 1:
                        self._orders[index] = replace(order, times=order.times - 1)
                    else:
                        del self._orders[index]
                    return order
        return None

    def _give(self, order: Order) -> None:
        if order.times < 1:
            raise ValueError("An order is for one request at least.")
        with self._lock:
            self._is_forgotten.clear()
            self._orders.append(order)

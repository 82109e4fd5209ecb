"""Faults on order: errors that the next matching requests meet.

Orders are given to the server's Python object by whoever tests; nothing of it is on the wire.
"""

import threading
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Final

from simulator.kubernetes_api.errors import StatusError
from simulator.kubernetes_api.routing import Asked

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
        verb: "list", "watch", "create" and so on; "" for every verb.
        resource: "pods", "pods/eviction"; "" for every resource.
        times: How many requests are left that meet it.
    """

    verb: str
    resource: str
    times: int
    error: StatusError

    def fits(self, asked: Asked) -> bool:
        """Whether a request meets this order."""
        return self.verb in {"", asked.verb} and self.resource in {"", asked.resource}


class Orders:
    """The orders of one server, oldest first; any thread may give and take."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._orders: list[Order] = []

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
        if times < 1:
            raise ValueError("An order is for one request at least.")
        with self._lock:
            self._orders.append(Order(verb, resource, times, error))

    def clear(self) -> None:
        """Forget every order."""
        with self._lock:
            self._orders.clear()

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

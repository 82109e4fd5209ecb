"""How many requests a caller made in its minute, which all web servers count together in Valkey.

Valkey may be away, or lose its content: requests are then answered without being counted.
"""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import structlog
from redis import Redis
from redis.exceptions import RedisError

WINDOW_SECONDS: Final = 60
TIMEOUT_SECONDS: Final = 0.2
"""A Valkey that answers takes a millisecond."""
REST_SECONDS: Final = 5
"""So long a Valkey that was away is not asked again: no request waits for it meanwhile."""
# One step in Valkey, so that a key always ends.
_COUNT: Final = """
local made = redis.call('INCR', KEYS[1])
if made == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return {made, redis.call('TTL', KEYS[1])}
"""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class RequestCount:
    """Requests of a caller since its minute began, this one included, and when it ends."""

    made: int
    seconds_left: int


class RequestCounts:
    """Counts requests in one Valkey."""

    def __init__(self, url: str) -> None:
        """Keep the address; nothing is asked yet."""
        client = Redis.from_url(
            url, socket_timeout=TIMEOUT_SECONDS, socket_connect_timeout=TIMEOUT_SECONDS
        )
        self._script: Any = client.register_script(_COUNT)
        self._rests_until = 0.0

    def count(self, caller: str) -> RequestCount | None:
        """Return the count with one more request of a caller; None while Valkey is away."""
        if time.monotonic() < self._rests_until:
            return None
        try:
            made, left = self._script(keys=[f"requests:{caller}"], args=[WINDOW_SECONDS])
        except RedisError as error:
            self._rests_until = time.monotonic() + REST_SECONDS
            log.warning("api.requests.not_counted", reason=str(error))
            return None
        return RequestCount(made=int(made), seconds_left=max(int(left), 1))


@cache
def request_counts(url: str) -> RequestCounts:
    """Return the counts of this process in a Valkey."""
    return RequestCounts(url)

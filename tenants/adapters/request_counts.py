"""How many requests a caller made in its minute, which all web servers count together in Valkey.

Valkey may be away, or lose its content: requests are then answered without being counted.
"""

import time
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import structlog
from redis import Redis
from redis.connection import parse_url
from redis.exceptions import RedisError
from redis.sentinel import Sentinel

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

    def __init__(self, url: str, sentinels: tuple[str, ...] = ()) -> None:
        """Keep the address; nothing is asked yet."""
        self._script: Any = _client(url, sentinels).register_script(_COUNT)
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


def _client(url: str, sentinels: tuple[str, ...]) -> Redis:
    """Return a client of a Valkey, or of the primary that sentinels know by the URL's host."""
    timeouts: dict[str, Any] = dict.fromkeys(
        ("socket_timeout", "socket_connect_timeout"), TIMEOUT_SECONDS
    )
    if not sentinels:
        return Redis.from_url(url, **timeouts)
    parts = parse_url(url)  # type: ignore[no-untyped-call]
    hosts = [(host, int(port)) for host, _, port in (one.rpartition(":") for one in sentinels)]
    account = {name: parts[name] for name in ("username", "password", "db") if name in parts}
    watchers: Any = Sentinel(hosts, sentinel_kwargs=timeouts, **timeouts)  # type: ignore[no-untyped-call]
    client: Redis = watchers.master_for(parts["host"], **account)
    return client


@cache
def request_counts(url: str, sentinels: tuple[str, ...] = ()) -> RequestCounts:
    """Return the counts of this process in a Valkey."""
    return RequestCounts(url, sentinels)

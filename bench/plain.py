"""The twins that figures are compared with: the same queries and rows without our own work."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

import requests

from bench.harness import measured

CHUNK_BYTES: Final = 256 * 1024


def ask_plainly(url: str, queries: Iterable[tuple[str, str]]) -> Decimal:
    """Return the seconds Prometheus takes to answer a reader that throws the answers away.

    Args:
        url: Of the Prometheus.
        queries: Text and time of each.
    """
    with measured() as watch, requests.Session() as session:
        for query, at in queries:
            answer = session.get(
                f"{url}/api/v1/query",
                params={"query": query, "time": at},
                headers={"Accept-Encoding": "identity"},
                stream=True,
                timeout=60,
            )
            answer.raise_for_status()
            for _ in answer.raw.stream(CHUNK_BYTES):
                pass
    return watch.seconds

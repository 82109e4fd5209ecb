"""The twins that figures are compared with: the same queries and rows without our own work."""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

import requests

from bench.harness import ROOT, measured

CHUNK_BYTES: Final = 256 * 1024
FIXED: Final = ROOT / "bench" / "fixed_queries.json"
"""An hour's queries as they were when every device was read from raw samples, at a scrape of 30 s.

They are what figures are divided by, so that to ask for less is no worse a figure. They change only
when what is asked of Prometheus has to grow.
"""
BILL: Final = "bill"
DEVICES: Final = "devices"


def fixed_queries(slug: str, hour: datetime, *about: str) -> list[tuple[str, str]]:
    """Return text and time of the fixed queries about one hour of a cluster.

    Args:
        slug: The value of the cluster's label.
        hour: Its begin.
        about: BILL, DEVICES or both.
    """
    return [
        (
            one["query"].replace("CLUSTER", slug),
            str(int((hour + timedelta(seconds=one["after_seconds"])).timestamp())),
        )
        for one in json.loads(FIXED.read_text(encoding="utf-8"))
        if one["about"] in about
    ]


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


def copy_plainly(slug: str) -> tuple[Decimal, int]:
    """Return the seconds of a COPY of a cluster's records into a twin, and how many."""
    from django.db import connection, transaction  # noqa: PLC0415 - Django is set up by now.

    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE plain (LIKE metering_usagerecord INCLUDING ALL)")
        with cursor.copy(
            "COPY (SELECT u.* FROM metering_usagerecord u"
            " JOIN metering_meteringwindow w ON w.id = u.window_id"
            " JOIN tenants_cluster c ON c.id = w.cluster_id WHERE c.slug = %s) TO STDOUT",
            (slug,),
        ) as out:
            text = b"".join(bytes(block) for block in out)
        with measured() as watch, cursor.copy("COPY plain FROM STDIN") as into:
            into.write(text)
        cursor.execute("DROP TABLE plain")
    return watch.seconds, text.count(b"\n")

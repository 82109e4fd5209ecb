"""CloudKitty's own worker on one backlog; runs in the environment that bin/prepare makes for it.

What is called is what its processor calls for each scope: its Prometheus collector, its hashmap
rating and its SQL storage, each from its configuration. Only the loop ends after so many hours,
because the processor itself waits an hour and begins again.
"""

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from cloudkitty import collector, db, orchestrator, service, storage, storage_state
from cloudkitty.db import api as database
from cloudkitty.db.sqlalchemy import models as core_models
from cloudkitty.rating import hash as hashmap
from cloudkitty.rating.hash.db.sqlalchemy import models as hashmap_models

WARM_SCOPES = 5


def main() -> None:
    """Get ready and say so; once another line comes, rate the hours and say what it took."""
    asked = json.loads(sys.stdin.readline())
    service.prepare_service(["peers"], [asked["configuration"]])
    start = datetime.fromtimestamp(asked["start"], tz=UTC)
    _make_tables()
    _set_price(asked["metric"], asked["price"], start=start)
    scopes = asked["scopes"]
    source, sink = collector.get_collector(), storage.get_storage()
    _begin_at(scopes, start - timedelta(hours=1))
    _rate(scopes[:WARM_SCOPES], hours=1, source=source, sink=sink)
    _begin_at(scopes, start)
    print(json.dumps("ready"), flush=True)
    sys.stdin.readline()
    since, cpu = time.perf_counter(), time.process_time()
    _rate(scopes, hours=asked["hours"], source=source, sink=sink)
    seconds, cpu = time.perf_counter() - since, time.process_time() - cpu
    print(json.dumps({"seconds": str(seconds), "worker": str(cpu)}), flush=True)


def _make_tables() -> None:
    """Make its tables from its models.

    Its migrations of prices run neither on PostgreSQL nor on SQLite; those of its storage do.
    """
    with db.session_for_write() as session:
        for base in (core_models.Base, hashmap_models.Base):
            base.metadata.create_all(session.get_bind())
    storage.get_storage().init()
    storage_state.StateManager().init()


def _set_price(metric: str, price: str, *, start: datetime) -> None:
    prices = hashmap.HashMap.db_api
    priced = prices.create_service(metric)
    prices.create_mapping(
        cost=price,
        map_type="flat",
        service_id=priced.service_id,
        start=(start - timedelta(days=1)).replace(tzinfo=None),
        created_by="bench",
    )
    database.get_instance().get_module_info().set_state("hashmap", state=True)


def _begin_at(scopes: list[str], at: datetime) -> None:
    """Let each scope's next hour begin then."""
    state = storage_state.StateManager()
    for scope in scopes:
        state.set_last_processed_timestamp(scope, at - timedelta(hours=1))


def _rate(scopes: list[str], *, hours: int, source: Any, sink: Any) -> None:  # noqa: ANN401 - CloudKitty has no types.
    for scope in scopes:
        worker = orchestrator.Worker(source, sink, scope, 0)
        for _ in range(hours):
            if not worker.execute_worker_processing():
                sys.exit(f"CloudKitty had no hour of {scope} to rate.")


if __name__ == "__main__":
    main()

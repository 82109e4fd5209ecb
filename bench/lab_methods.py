"""The usual ways of counting GPU-seconds with PromQL, each queried as its users do."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from urllib.parse import urlencode
from urllib.request import urlopen

REQUESTS = 'kube_pod_container_resource_requests{resource="nvidia_com_gpu"}'
RUNNING = 'max by (uid) (kube_pod_status_phase{phase="Running"} == 1)'
BY_UID = f"max by (uid) ({REQUESTS})"
LOOK_BACK_SECONDS = 20
"""Five minutes, as much shorter as everything else in the lab."""
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Reported:
    """The result of one method for each pod, in GPU-seconds."""

    method: str
    seconds: Mapping[str, Decimal]
    flagged: frozenset[str] = frozenset()
    is_hour_flagged: bool = False


def naive_methods(*, window: int, step: int) -> Mapping[str, str]:
    """Return each method's query, by its description."""
    spans = f"[{window}s:{step}s]"
    stamps = f"timestamp({REQUESTS}){spans}"
    return {
        "sum_over_time(requests) x step": (
            f"sum by (uid) (sum_over_time({REQUESTS}[{window}s])) * {step}"
        ),
        "the same, max by uid": f"sum by (uid) (sum_over_time(({BY_UID}){spans})) * {step}",
        "the same, while Running": (
            f"sum by (uid) (sum_over_time(({BY_UID} * on (uid) {RUNNING}){spans})) * {step}"
        ),
        "first to last sample": (
            f"(max by (uid) (max_over_time({stamps})) - min by (uid) (min_over_time({stamps})))"
            f" * on (uid) max by (uid) (max_over_time({REQUESTS}[{window}s]))"
        ),
    }


def ask_all(
    url: str, *, at: datetime, window: int, step: int
) -> Iterator[tuple[str, dict[str, Decimal]]]:
    """Yield every method with its result for each pod."""
    for name, query in naive_methods(window=window, step=step).items():
        yield name, _ask(url, query=query, at=at)


def _ask(url: str, *, query: str, at: datetime) -> dict[str, Decimal]:
    asked = urlencode(
        {"query": query, "time": at.timestamp(), "lookback_delta": f"{LOOK_BACK_SECONDS}s"}
    )
    with urlopen(f"{url}/api/v1/query?{asked}", timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - Our own server.
        found = json.load(answer)
    return {one["metric"]["uid"]: Decimal(one["value"][1]) for one in found["data"]["result"]}

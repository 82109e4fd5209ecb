"""The dashboard's tile of cluster health."""

from collections.abc import Iterable, Mapping
from typing import Any

from config.dashboard.parts import cell, number, page_of
from metering.domain.words import duration_words, ratio_words
from metering.selectors.health import HealthTotal


def health_table(totals: Iterable[HealthTotal], *, names: Mapping[object, str]) -> dict[str, Any]:
    """Return a row per cluster, by name: nodes ready, queue, and what broke."""
    rows = sorted(totals, key=lambda total: names[total.cluster_id])
    return {
        "headers": [
            cell("Cluster"),
            number("Nodes ready"),
            number("Most pods waiting"),
            number("Longest wait"),
            number("Memory errors"),
            number("Failures"),
        ],
        "rows": [_row(total, name=names[total.cluster_id]) for total in rows],
    }


def _row(total: HealthTotal, *, name: str) -> list[dict[str, Any]]:
    pending = total.pending_pods_max
    hours = page_of("metering_clusterhealth", cluster__id__exact=total.cluster_id)
    events = page_of(
        "metering_deviceevent", cluster__id__exact=total.cluster_id, severity__exact="fail"
    )
    return [
        cell(name, link=hours),
        number(ratio_words(total.ready_seconds, total.expected_seconds)),
        number("-" if pending is None else f"{pending:,}"),
        number(duration_words(total.wait_seconds_max)),
        number(f"{total.memory_errors:,}"),
        cell(f"{total.failures:,}", link=events if total.failures else "", is_number=True),
    ]

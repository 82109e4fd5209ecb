"""The page of device sharing: a week of who was on one device with whom, in one cluster or all."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models import QuerySet

from metering.domain.sharing import EVIDENCE_WORDS, NOTES, Evidence
from metering.selectors.device_sharing import CoTenancyInterval, device_sharing, reach_of
from tenants.models import Cluster

ROWS_MAX: Final = 200
WEEK: Final = timedelta(days=7)
EVIDENCE_NAMES: Final = {
    Evidence.SAME_DEVICE: "Same device",
    Evidence.SAME_NODE: "Same node",
    Evidence.SAME_GPU_INSTANCES: "Instances of one GPU",
}
HEADERS: Final = ("Who", "With", "What is known", "From", "To", "Cluster", "Node", "On", "How")


def sharing_context(
    *, week: str, cluster: str = "", clusters: QuerySet[Cluster], at: datetime
) -> dict[str, Any]:
    """Return the template's values for a week, as somebody of the platform sees it.

    Args:
        week: Its first day, as "2026-10-05"; anything else is the week that ends now.
        cluster: Slug of the only one shown; "" for all, and one that nobody knows is all, too.
        clusters: Those that can be chosen.
        at: Now.
    """
    begin = _begin_of(week, at=at)
    end = min(begin + WEEK, at)
    choices = {one.slug: one for one in clusters.order_by("slug")}
    chosen = choices.get(cluster)
    found = device_sharing(
        begin_at=begin,
        end_at=end,
        reach=reach_of(None),
        limit=ROWS_MAX + 1,
        cluster_id=None if chosen is None else chosen.pk,
    )
    return {
        "clusters": [(one.slug, one.name) for one in choices.values()],
        "cluster": "" if chosen is None else chosen.slug,
        "place": "any cluster" if chosen is None else chosen.name,
        "begin": begin,
        "end": end,
        "previous": begin - WEEK,
        "following": begin + WEEK if begin + WEEK < at else None,
        "evidence": [(EVIDENCE_NAMES[kind], words) for kind, words in EVIDENCE_WORDS.items()],
        "notes": NOTES,
        "headers": HEADERS,
        "rows": [_row(one) for one in found[:ROWS_MAX]],
        "is_cut": len(found) > ROWS_MAX,
        "rows_max": ROWS_MAX,
    }


def _begin_of(week: str, *, at: datetime) -> datetime:
    latest = datetime.combine(at.date() - WEEK + timedelta(days=1), time(), UTC)
    try:
        begin = datetime.combine(date.fromisoformat(week), time(), UTC)
    except ValueError:
        return latest
    return begin if begin.year > 1 and begin < at else latest


def _row(one: CoTenancyInterval) -> list[str]:
    return [
        f"{one.organization}/{one.project}",
        f"{one.other_organization}/{one.other_project}",
        EVIDENCE_NAMES[one.evidence],
        f"{one.begin_at:%Y-%m-%d %H:%M}",
        f"{one.end_at:%Y-%m-%d %H:%M}",
        one.cluster,
        one.node,
        one.place,
        one.sharing_mode,
    ]

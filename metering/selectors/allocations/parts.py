"""Parts of a window in SQL: the rows of the pods whose uid begins in one way."""

from typing import Final

from metering.domain.catalogue.units import CLAIM_PREFIX
from metering.domain.collection.parts import Part

HOLDER_UID: Final = f"""
CASE WHEN resource LIKE '{CLAIM_PREFIX}%%' THEN split_part(resource, '/', 2) ELSE pod_uid END
""".strip()
"""What a usage record is of: its pod, or the claim that the pod used; see `record_resource`."""


def in_part(uid: str) -> str:
    """Return the condition on a column of uids; its parameters are `part_values`."""
    return f"(%(part)s = '' OR ({uid} ~ %(part)s) <> %(is_rest)s)"


def part_values(part: Part) -> dict[str, str | bool]:
    """Return the parameters of `in_part`; of the whole window nothing is compared."""
    return {"part": "" if part.is_whole else f"^{part.beginning}", "is_rest": part.is_rest}

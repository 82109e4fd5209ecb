"""What usage records repeat hour after hour: known by digest, and SQL that writes records of it.

A fact is one row of `metering_usagefact`; records name it by id and version (ADR 0107).
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final
from uuid import UUID

from django.db.backends.utils import CursorWrapper

from metering.selectors.text_arrays import text_array

FACT_COLUMNS: Final = (
    "organization_id, project_id, cluster_id, owner, namespace, pod_name, pod_uid, resource, node,"
    " size, price_group, sharing_mode, share_numerator, share_denominator, units, catalogue_version"
)
"""Columns of a fact, in the order of its digest."""
FACT_TYPES: Final = (
    "organization_id uuid, project_id uuid, cluster_id uuid, owner text, namespace text,"
    " pod_name text, pod_uid text, resource text, node text, size text, price_group text,"
    " sharing_mode text, share_numerator integer, share_denominator integer, units integer,"
    " catalogue_version integer"
)
_KNOWN: Final = """
SELECT encode(uuid_send(f.digest), 'hex'), f.id, f.version
  FROM metering_usagefact f
 WHERE f.cluster_id = %s AND f.pod_uid = ANY(%s::text[])
"""
_NEW_FACTS: Final = f"""
INSERT INTO metering_usagefact ({FACT_COLUMNS})
SELECT DISTINCT {FACT_COLUMNS} FROM ({{rows}}) r
 ORDER BY pod_uid, resource, owner, node
ON CONFLICT DO NOTHING
"""  # noqa: S608 - Constants.
_RECORDS: Final = f"""
INSERT INTO metering_usagerecord
  (window_id, window_start, organization_id, fact_id, fact_version, revision, unit_seconds,
   split_among, begin_second, end_second, end_kind, slack_seconds, correction_id)
SELECT r.window_id, r.window_start, organization_id, f.id, f.version, r.revision, r.unit_seconds,
       r.split_among, extract(epoch FROM r.begin_at - r.window_start),
       extract(epoch FROM r.end_at - r.window_start), r.end_kind, r.slack_seconds, r.correction_id
  FROM ({{rows}}) r
  JOIN metering_usagefact f USING ({FACT_COLUMNS})
"""  # noqa: S608 - Constants.


FactId = tuple[int, int]
"""Id of the pod and resource, and version."""


def fact_digest(text: str) -> str:
    """Return the digest of a fact, as `metering_fact_digest` computes it, in hexadecimal.

    Args:
        text: Its columns in the order of `FACT_COLUMNS`, each behind its length and a colon.
    """
    return sha256(text.encode()).hexdigest()[:32]


def known_facts(
    cursor: CursorWrapper, *, cluster_id: UUID, pod_uids: Sequence[str]
) -> dict[str, FactId]:
    """Return the facts of a cluster's pods by digest; one statement."""
    cursor.execute(_KNOWN, [cluster_id, text_array(pod_uids)])
    return {digest: (fact_id, version) for digest, fact_id, version in cursor.fetchall()}


def new_facts(rows: str) -> str:
    """Return the statement that stores the facts of rows that are not stored yet.

    Of two transactions that number facts of a pod at once the later one stores nothing of it, and
    has to look again.

    Args:
        rows: A query with the columns of a fact.
    """
    return _NEW_FACTS.format(rows=rows)


def usage_statements(rows: str) -> tuple[str, str]:
    """Return the two statements that write usage records with all their columns.

    Args:
        rows: A query with the same rows each time; its columns are those of `metering_usage` but
            for id, seconds and device figures.
    """
    return new_facts(rows), _RECORDS.format(rows=rows)

"""Checks of price book assignments and of memberships of customer classes."""

from typing import Final

from django.db import connection

from tenants.domain.verification import CheckedBatch, Cursor
from tenants.selectors.verification import check_frozen_by_entries

EVER_ASSIGNED: Final = """
            SELECT price_book_id, valid FROM billing_pricebookassignment
             WHERE organization_id = {organization}
             UNION ALL
            SELECT x.price_book_id, x.valid * m.valid
              FROM billing_customerclassmembership m
              JOIN billing_pricebookassignment x USING (customer_class_id)
             WHERE m.organization_id = {organization}
             UNION ALL
            SELECT price_book_id, valid FROM billing_pricebookassignment
             WHERE organization_id IS NULL AND customer_class_id IS NULL"""
"""The books that an organization was ever billed by, superseded ones included."""
_KEY: Final = """CASE WHEN e.object_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                     THEN e.object_id::uuid END"""
_IS_ASSIGNED: Final = f"""
  EXISTS (SELECT FROM billing_pricebookassignment a WHERE a.id = {_KEY})
  OR EXISTS (SELECT FROM billing_customerclassmembership a WHERE a.id = {_KEY})"""  # noqa: S608 - Constants.
_IS_SAME: Final = """e.organization_id IS NOT DISTINCT FROM a.organization_id
       AND e.facts ->> 'customer_class' IS NOT DISTINCT FROM g.slug
       AND CASE WHEN e.facts ->> 'valid_from'
                     ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:00:00[+-][0-9]{2}:[0-9]{2}$'
                THEN (e.facts ->> 'valid_from')::timestamptz = lower(a.valid) END"""
_IS_NEXT: Final = """a.superseded_at IS NOT NULL
       OR upper(a.valid) IS NOT DISTINCT FROM lead(lower(a.valid)) OVER (
         PARTITION BY {owner}, a.superseded_at IS NULL ORDER BY lower(a.valid))"""
_IS_KEPT: Final = """(a.superseded_at IS NULL) <> EXISTS (
         SELECT FROM tenants_auditentry s
          WHERE (s.object_kind, s.object_id) = ('{kind}', a.id::text)
            AND s.action IN ('billing:{noun}:supersede', 'billing:{noun}:withdraw'))"""
_ENTRY: Final = """LEFT JOIN LATERAL (
    SELECT id, organization_id, facts FROM tenants_auditentry
     WHERE (object_kind, object_id, action) = ('{kind}', a.id::text, 'billing:{noun}:assign')
     ORDER BY id LIMIT 1) e ON true"""
_BOOK: Final = {"kind": "price_book_assignment", "noun": "price_book"}
_CLASS: Final = {"kind": "customer_class_membership", "noun": "customer_class"}
_ASSIGNMENTS: Final = f"""
SELECT 'price book assignment ' || a.id || ' of ' || coalesce(o.slug, g.slug, 'all'),
       e.id IS NOT NULL AND e.facts ->> 'price_book' IS NOT DISTINCT FROM b.slug AND {_IS_SAME},
       {_IS_NEXT.format(owner="a.organization_id, a.customer_class_id")},
       {_IS_KEPT.format(**_BOOK)}
  FROM billing_pricebookassignment a
  LEFT JOIN billing_pricebook b ON b.id = a.price_book_id
  LEFT JOIN tenants_organization o ON o.id = a.organization_id
  LEFT JOIN billing_customerclass g ON g.id = a.customer_class_id
  {_ENTRY.format(**_BOOK)}
 UNION ALL
SELECT 'customer class of ' || o.slug || ', ' || a.id,
       e.id IS NOT NULL AND {_IS_SAME},
       {_IS_NEXT.format(owner="a.organization_id")},
       {_IS_KEPT.format(**_CLASS)}
  FROM billing_customerclassmembership a
  JOIN tenants_organization o ON o.id = a.organization_id
  LEFT JOIN billing_customerclass g ON g.id = a.customer_class_id
  {_ENTRY.format(**_CLASS)}
 ORDER BY 1
"""  # noqa: S608 - Constants.


def check_assignments(cursor: Cursor) -> CheckedBatch:
    """Compare every assigned price book and customer class with its audit entry, and back."""
    batch = check_frozen_by_entries(
        cursor,
        actions=["billing:price_book:assign", "billing:customer_class:assign"],
        is_kept=_IS_ASSIGNED,
        sentence="The assignment {} was made by the audit trail, and is missing.",
    )
    if not batch.is_last:
        return batch
    with connection.cursor() as database:
        database.execute(_ASSIGNMENTS)
        rows = database.fetchall()
    found = [
        sentence
        for name, is_same, is_next, is_kept in rows
        for sentence in range_differences(
            f"The {name}", is_same=is_same, is_next=is_next, is_kept=is_kept
        )
    ]
    return CheckedBatch(len(rows), tuple(found))


def range_differences(
    name: str, *, is_same: bool | None, is_next: bool, is_kept: bool
) -> list[str]:
    """Return what is wrong with one of a row of prices or assignments, each up to the next."""
    sentences = (
        (is_same, f"{name} is not what was set by the audit trail."),
        (is_next, f"{name} does not end where the next one begins."),
        (is_kept, f"{name} is superseded and not by the audit trail, or the other way round."),
    )
    return [sentence for is_right, sentence in sentences if not is_right]

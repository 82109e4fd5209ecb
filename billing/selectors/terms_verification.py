"""Checks of what bills are made by beside prices: taxes, tiers, minimums, issuers and routes."""

from typing import Final

from django.db import connection

from tenants.domain.verification import CheckedBatch, Cursor
from tenants.selectors.verification import check_frozen_by_entries


def check_terms(cursor: Cursor) -> CheckedBatch:
    """Compare taxes, tiers, minimums, issuers, recipients and routes with entries, and back."""
    batch = check_frozen_by_entries(
        cursor,
        actions=[
            "billing:tax_rate:set",
            "billing:tax_treatment:set",
            "billing:tier_schedule:publish",
            "billing:issuer:create",
            "billing:recipient:create",
            "billing:project_route:create",
            "billing:minimum_charge:publish",
            "billing:price_calendar:publish",
        ],
        is_kept=_IS_KEPT,
        sentence="The term {} was set by the audit trail, and is missing.",
    )
    if not batch.is_last:
        return batch
    with connection.cursor() as database:
        database.execute(_TERMS)
        rows = database.fetchall()
    found = [
        sentence
        for name, is_same, is_withdrawn_alike in rows
        for is_right, sentence in (
            (is_same, f"The {name} is not what was set by the audit trail."),
            (
                is_withdrawn_alike,
                f"The {name} is withdrawn or replaced otherwise than by the audit trail.",
            ),
        )
        if not is_right
    ]
    return CheckedBatch(len(rows), tuple(found))


_KEY: Final = """CASE WHEN e.object_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                     THEN e.object_id::uuid END"""
_IS_KEPT: Final = f"""
  EXISTS (SELECT FROM billing_taxrate r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_taxtreatment r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_minimumcharge r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_pricecalendar r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_tierschedule r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_issuer r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_recipient r WHERE r.id = {_KEY})
  OR EXISTS (SELECT FROM billing_projectroute r WHERE r.id = {_KEY})"""  # noqa: S608 - Constants.
_WAS: Final = """EXISTS (
         SELECT FROM tenants_auditentry w
          WHERE (w.object_kind, w.object_id) = ('{kind}', r.id::text)
            AND w.action = 'billing:{kind}:{action}')"""
_SET: Final = """LEFT JOIN LATERAL (
    SELECT organization_id, facts FROM tenants_auditentry
     WHERE (object_kind, object_id, action) = ('{kind}', r.id::text, 'billing:{kind}:{action}')
     ORDER BY id LIMIT 1) e ON true"""
# What may be changed has the value of its last entry that names it, "" or 1 where none does. A
# recipient is named with its organization, whose name may have changed since.
_ROUTING: Final = """
SELECT replace(r.kind, '_', ' ') || ' ' || r.id,
       EXISTS (SELECT FROM tenants_auditentry e
                WHERE (e.object_kind, e.object_id) = (r.kind, r.id::text)
                  AND e.action = 'billing:' || r.kind || ':create'
                  AND e.organization_id IS NOT DISTINCT FROM r.organization_id)
       AND NOT EXISTS (
         SELECT FROM jsonb_each_text(r.fields) f
          WHERE f.value <> coalesce((
            SELECT regexp_replace(
                     coalesce(e.facts ->> f.key, e.facts #>> ARRAY['changed', f.key, '1'], ''),
                     CASE WHEN (r.kind, f.key) = ('project_route', 'recipient')
                          THEN '^.*: ' ELSE '^$' END, '')
              FROM tenants_auditentry e
             WHERE (e.object_kind, e.object_id) = (r.kind, r.id::text)
               AND e.action IN ('billing:' || r.kind || ':create',
                                'billing:' || r.kind || ':update')
               AND (e.facts ? f.key OR e.facts -> 'changed' ? f.key)
             ORDER BY e.id DESC LIMIT 1), CASE f.key WHEN 'first_number' THEN '1' ELSE '' END)),
       true
  FROM (SELECT 'issuer' AS kind, id, NULL::uuid AS organization_id,
               to_jsonb(i) - '{id,created_at,version}'::text[] AS fields
          FROM billing_issuer i
         UNION ALL
        SELECT 'recipient', id, organization_id,
               to_jsonb(c) - '{id,organization_id,created_at,version}'::text[]
          FROM billing_recipient c
         UNION ALL
        SELECT 'project_route', t.id, t.organization_id,
               jsonb_build_object('project', p.slug, 'issuer', coalesce(i.slug, ''),
                 'recipient', coalesce(c.slug, ''), 'purchase_order', t.purchase_order)
          FROM billing_projectroute t JOIN tenants_project p ON p.id = t.project_id
          LEFT JOIN billing_issuer i ON i.id = t.issuer_id
          LEFT JOIN billing_recipient c ON c.id = t.recipient_id) r"""
_TERMS: Final = f"""
SELECT 'tax rate ' || r.id,
       (r.country, r.category, r.valid_from::text, trim_scale(r.rate)::text, r.exemption_text)
       = (e.facts ->> 'country', e.facts ->> 'category', e.facts ->> 'valid_from',
          e.facts ->> 'rate', e.facts ->> 'exemption_text'),
       (r.withdrawn_at IS NOT NULL) = {_WAS.format(kind="tax_rate", action="withdraw")}
  FROM billing_taxrate r {_SET.format(kind="tax_rate", action="set")}
 UNION ALL
SELECT 'tax treatment ' || r.id,
       (r.country, r.category, r.valid_from::text, r.organization_id)
       = (e.facts ->> 'country', e.facts ->> 'category', e.facts ->> 'valid_from',
          e.organization_id),
       (r.withdrawn_at IS NOT NULL) = {_WAS.format(kind="tax_treatment", action="withdraw")}
  FROM billing_taxtreatment r {_SET.format(kind="tax_treatment", action="set")}
 UNION ALL
SELECT 'tier schedule ' || r.id,
       (b.slug, r.name, r.first_month, r.last_month, r.bands, r.basis, r.kind, r.scope, r.span,
        r.year_begins::text, r.sizes, r.price_groups, coalesce(r.replaces_id::text, ''))
       = (e.facts ->> 'price_book', e.facts ->> 'name', e.facts ->> 'first_month',
          e.facts ->> 'last_month', e.facts -> 'bands', e.facts ->> 'basis', e.facts ->> 'kind',
          e.facts ->> 'scope', e.facts ->> 'span', e.facts ->> 'year_begins', e.facts -> 'sizes',
          e.facts -> 'price_groups', coalesce(e.facts ->> 'replaces', '')),
       (r.withdrawn_at IS NOT NULL) = {_WAS.format(kind="tier_schedule", action="withdraw")}
       AND r.superseded_from = coalesce((
         SELECT w.facts ->> 'superseded_from' FROM tenants_auditentry w
          WHERE (w.object_kind, w.object_id) = ('tier_schedule', r.id::text)
            AND w.action = 'billing:tier_schedule:supersede' ORDER BY w.id LIMIT 1), '')
  FROM billing_tierschedule r JOIN billing_pricebook b ON b.id = r.price_book_id
  {_SET.format(kind="tier_schedule", action="publish")}
 UNION ALL
SELECT 'minimum charge ' || r.id,
       (r.organization_id, trim_scale(r.amount)::text, r.currency, r.first_month, r.last_month,
        coalesce(r.replaces_id::text, ''))
       = (e.organization_id, trim_scale((e.facts ->> 'amount')::numeric)::text,
          e.facts ->> 'currency', e.facts ->> 'first_month', e.facts ->> 'last_month',
          coalesce(e.facts ->> 'replaces', '')),
       (r.withdrawn_at IS NOT NULL) = {_WAS.format(kind="minimum_charge", action="withdraw")}
       AND r.superseded_from = coalesce((
         SELECT w.facts ->> 'superseded_from' FROM tenants_auditentry w
          WHERE (w.object_kind, w.object_id) = ('minimum_charge', r.id::text)
            AND w.action = 'billing:minimum_charge:supersede' ORDER BY w.id LIMIT 1), '')
  FROM billing_minimumcharge r {_SET.format(kind="minimum_charge", action="publish")}
 UNION ALL
SELECT 'price calendar ' || r.id,
       (b.slug, r.time_zone, r.bands, r.holidays, r.country, r.subdivision, r.last_year::text,
        to_char(r.begin_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'))
       IS NOT DISTINCT FROM
         (e.facts ->> 'price_book', e.facts ->> 'time_zone', e.facts -> 'bands',
          e.facts -> 'holidays', e.facts ->> 'country', e.facts ->> 'subdivision',
          e.facts ->> 'last_year', e.facts ->> 'valid_from')
       AND r.end_at IS NOT DISTINCT FROM
           make_timestamp(r.last_year + 1, 1, 1, 0, 0, 0) AT TIME ZONE r.time_zone,
       (r.superseded_at IS NOT NULL) = {_WAS.format(kind="price_calendar", action="withdraw")}
  FROM billing_pricecalendar r JOIN billing_pricebook b ON b.id = r.price_book_id
  {_SET.format(kind="price_calendar", action="publish")}
 UNION ALL
{_ROUTING}
 ORDER BY 1
"""  # noqa: S608 - Put together from constants only.

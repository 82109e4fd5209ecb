-- What becomes final is checked when the transaction commits: its number is the
-- next of the series of its kind and year of issue, and not dated before the number in front of it;
-- its lines are those printed and add up to its total; the digest is that of the stored text, which
-- is the document; its taxes are the rates of its total, each rounded once, and a credit note's those
-- of all that corrects its invoice, less what was printed before; a credit note gives back no more
-- than is left; its period is closed. All documents of its run are final, and each has the lines of
-- the projects that the run routes to its issuer, recipient and purchase order.
CREATE OR REPLACE FUNCTION billing_final_adds_up() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  reason := CASE
    WHEN NOT EXISTS (SELECT FROM billing_invoiceseries s WHERE s.code = NEW.series
                        AND NEW.number BETWEEN s.first_number AND s.next_number - 1
                        AND (NEW.number < s.next_number - 1
                          OR NEW.finalized_at = s.last_issued_at)) THEN
      'its number is not the next of its series'
    WHEN NEW.issue_year <> extract(year FROM NEW.finalized_at AT TIME ZONE 'UTC')
         OR NEW.series NOT LIKE '%-' || NEW.issue_year THEN
      'its series is not that of its year of issue'
    WHEN EXISTS (SELECT FROM billing_invoice i WHERE i.series = NEW.series
                    AND i.number = NEW.number - 1 AND i.finalized_at > NEW.finalized_at) THEN
      'it is dated before the number in front of it'
    WHEN encode(sha256(convert_to(NEW.content, 'UTF8')), 'hex') <> NEW.content_sha256 THEN
      'its digest is not that of its text'
    WHEN NEW.content::jsonb <> NEW.document THEN
      'its text is not its document'
    WHEN (NEW.document ->> 'state', NEW.document ->> 'currency', NEW.document ->> 'reference')
         IS DISTINCT FROM ('final', NEW.currency,
           NEW.series || '-' || lpad(NEW.number::text, greatest(6, length(NEW.number::text)), '0'))
         OR (NEW.document #>> '{total,amount}')::numeric IS DISTINCT FROM NEW.total THEN
      'its document shows something else'
    WHEN (SELECT (coalesce(sum(l.amount), 0), coalesce(sum(l.unit_seconds), 0))
            FROM billing_invoiceline l WHERE l.invoice_id = NEW.id)
         IS DISTINCT FROM (SELECT (NEW.total, NEW.unit_seconds::numeric)) THEN
      'its lines do not add up to it'
    WHEN EXISTS (
      SELECT FROM (SELECT position, unit_seconds, amount FROM billing_invoiceline
                    WHERE invoice_id = NEW.id) l
        FULL JOIN (SELECT (d ->> 'position')::int AS position,
                          (d ->> 'unit_seconds')::bigint AS unit_seconds,
                          (d ->> 'amount')::numeric AS amount
                     FROM jsonb_array_elements(NEW.document -> 'lines') d) p USING (position)
       WHERE (l.unit_seconds, l.amount) IS DISTINCT FROM (p.unit_seconds, p.amount)) THEN
      'its lines are not those printed'
    WHEN (coalesce((NEW.document ->> 'tax_total')::numeric, 0),
          coalesce((NEW.document ->> 'payable')::numeric, NEW.total))
         IS DISTINCT FROM (NEW.tax_total, NEW.total + NEW.tax_total)
      OR NEW.document ? 'taxes' <> NEW.document ? 'payable' THEN
      'its taxes are not those printed'
    WHEN NEW.document ? 'taxes' AND (
      SELECT (sum((t ->> 'taxable_amount')::numeric), sum((t ->> 'amount')::numeric),
              bool_and(added.tax = round(added.net * (t ->> 'rate')::numeric / 100,
                                         (NEW.document ->> 'minor_digits')::int)))
        FROM jsonb_array_elements(NEW.document -> 'taxes') t
       CROSS JOIN LATERAL (
         SELECT sum((b ->> 'taxable_amount')::numeric) AS net, sum((b ->> 'amount')::numeric) AS tax
           FROM billing_invoice n CROSS JOIN LATERAL jsonb_array_elements(n.document -> 'taxes') b
          WHERE (n.id = NEW.id
                 OR (n.corrects_id, n.kind, NEW.kind)
                    = (NEW.corrects_id, 'credit_note', 'credit_note'))
            AND n.state = 'final'
            AND (b ->> 'category', b ->> 'rate') = (t ->> 'category', t ->> 'rate')) added)
         IS DISTINCT FROM (SELECT (NEW.total, NEW.tax_total, true)) THEN
      'its taxes are not the rates of its total'
    WHEN (NEW.kind = 'credit_note') <> (NEW.total < 0) AND NEW.total <> 0
         OR NEW.corrects_id IS NOT NULL AND NEW.kind NOT IN ('credit_note', 'debit_note')
         OR NEW.kind = 'debit_note' AND (NEW.corrects_id IS NULL OR NEW.total <= 0) THEN
      'its kind is not that of its total'
    WHEN NEW.corrects_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_invoice c
       WHERE c.id = NEW.corrects_id AND c.state = 'final'
         AND (c.corrects_id IS NULL OR (c.kind, NEW.kind) = ('debit_note', 'credit_note'))
         AND (c.organization_id, c.period_id, c.currency)
             = (NEW.organization_id, NEW.period_id, NEW.currency)
         AND (NEW.kind = 'debit_note'
              OR abs(c.total) >= abs((SELECT sum(n.total) FROM billing_invoice n
                                       WHERE n.corrects_id = c.id AND n.state = 'final'
                                         AND n.kind = 'credit_note')))) THEN
      'it gives back more than is left of the document it names, or names none'
    WHEN NOT EXISTS (SELECT FROM billing_billingperiod p
                      WHERE p.id = NEW.period_id AND p.state = 'closed') THEN
      'its period is not closed'
    WHEN EXISTS (SELECT FROM billing_invoice o
                  WHERE (o.period_id, o.run) = (NEW.period_id, NEW.run) AND o.state <> 'final') THEN
      'another document of its run is not final'
    WHEN NEW.corrects_id IS NULL AND EXISTS (
      SELECT FROM billing_invoiceline l
        LEFT JOIN billing_runroute r
          ON (r.period_id, r.run, r.project_id) = (NEW.period_id, NEW.run, l.project_id)
       WHERE l.invoice_id = NEW.id
         AND (r.issuer_id, r.recipient_id, coalesce(r.purchase_order, ''))
             IS DISTINCT FROM (NEW.issuer_id, NEW.recipient_id, NEW.purchase_order)) THEN
      'its lines are routed to another document of its run'
    WHEN NEW.corrects_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_invoice c
       WHERE c.id = NEW.corrects_id
         AND (c.issuer_id, c.recipient_id, c.purchase_order)
             IS NOT DISTINCT FROM (NEW.issuer_id, NEW.recipient_id, NEW.purchase_order)) THEN
      'its parties are not those of the invoice it names'
  END;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'invoice % cannot become final: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Finalize it: that numbers and checks it.';
  END IF;
  RETURN NULL;
END $$;
-- reverse
-- What becomes final is checked when the transaction commits: its number is the
-- next of the series of its kind and year of issue, and not dated before the number in front of it;
-- its lines are those printed and add up to its total; the digest is that of the stored text, which
-- is the document; its taxes are the rates of its total, each rounded once, and a credit note's those
-- of all that corrects its invoice, less what was printed before; a credit note gives back no more
-- than is left; its period is closed. All documents of its run are final, and each has the lines of
-- the projects that the run routes to its issuer, recipient and purchase order.
CREATE OR REPLACE FUNCTION billing_final_adds_up() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE reason text;
BEGIN
  reason := CASE
    WHEN NOT EXISTS (SELECT FROM billing_invoiceseries s WHERE s.code = NEW.series
                        AND NEW.number BETWEEN s.first_number AND s.next_number - 1
                        AND (NEW.number < s.next_number - 1
                          OR NEW.finalized_at = s.last_issued_at)) THEN
      'its number is not the next of its series'
    WHEN NEW.issue_year <> extract(year FROM NEW.finalized_at AT TIME ZONE 'UTC')
         OR NEW.series NOT LIKE '%-' || NEW.issue_year THEN
      'its series is not that of its year of issue'
    WHEN EXISTS (SELECT FROM billing_invoice i WHERE i.series = NEW.series
                    AND i.number = NEW.number - 1 AND i.finalized_at > NEW.finalized_at) THEN
      'it is dated before the number in front of it'
    WHEN encode(sha256(convert_to(NEW.content, 'UTF8')), 'hex') <> NEW.content_sha256 THEN
      'its digest is not that of its text'
    WHEN NEW.content::jsonb <> NEW.document THEN
      'its text is not its document'
    WHEN (NEW.document ->> 'state', NEW.document ->> 'currency', NEW.document ->> 'reference')
         IS DISTINCT FROM ('final', NEW.currency,
           NEW.series || '-' || lpad(NEW.number::text, greatest(6, length(NEW.number::text)), '0'))
         OR (NEW.document #>> '{total,amount}')::numeric IS DISTINCT FROM NEW.total THEN
      'its document shows something else'
    WHEN (SELECT (coalesce(sum(l.amount), 0), coalesce(sum(l.unit_seconds), 0))
            FROM billing_invoiceline l WHERE l.invoice_id = NEW.id)
         IS DISTINCT FROM (SELECT (NEW.total, NEW.unit_seconds::numeric)) THEN
      'its lines do not add up to it'
    WHEN EXISTS (
      SELECT FROM (SELECT position, unit_seconds, amount FROM billing_invoiceline
                    WHERE invoice_id = NEW.id) l
        FULL JOIN (SELECT (d ->> 'position')::int AS position,
                          (d ->> 'unit_seconds')::bigint AS unit_seconds,
                          (d ->> 'amount')::numeric AS amount
                     FROM jsonb_array_elements(NEW.document -> 'lines') d) p USING (position)
       WHERE (l.unit_seconds, l.amount) IS DISTINCT FROM (p.unit_seconds, p.amount)) THEN
      'its lines are not those printed'
    WHEN (coalesce((NEW.document ->> 'tax_total')::numeric, 0),
          coalesce((NEW.document ->> 'payable')::numeric, NEW.total))
         IS DISTINCT FROM (NEW.tax_total, NEW.total + NEW.tax_total)
      OR NEW.document ? 'taxes' <> NEW.document ? 'payable' THEN
      'its taxes are not those printed'
    WHEN NEW.document ? 'taxes' AND (
      SELECT (sum((t ->> 'taxable_amount')::numeric), sum((t ->> 'amount')::numeric),
              bool_and(added.tax = round(added.net * (t ->> 'rate')::numeric / 100,
                                         (NEW.document ->> 'minor_digits')::int)))
        FROM jsonb_array_elements(NEW.document -> 'taxes') t
       CROSS JOIN LATERAL (
         SELECT sum((b ->> 'taxable_amount')::numeric) AS net, sum((b ->> 'amount')::numeric) AS tax
           FROM billing_invoice n CROSS JOIN LATERAL jsonb_array_elements(n.document -> 'taxes') b
          WHERE (n.id = NEW.id OR n.corrects_id = NEW.corrects_id) AND n.state = 'final'
            AND (b ->> 'category', b ->> 'rate') = (t ->> 'category', t ->> 'rate')) added)
         IS DISTINCT FROM (SELECT (NEW.total, NEW.tax_total, true)) THEN
      'its taxes are not the rates of its total'
    WHEN (NEW.kind = 'credit_note') <> (NEW.total < 0) AND NEW.total <> 0
         OR NEW.corrects_id IS NOT NULL AND NEW.kind <> 'credit_note' THEN
      'its kind is not that of its total'
    WHEN NEW.corrects_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_invoice c
       WHERE c.id = NEW.corrects_id AND c.state = 'final' AND c.corrects_id IS NULL
         AND (c.organization_id, c.period_id, c.currency)
             = (NEW.organization_id, NEW.period_id, NEW.currency)
         AND abs(c.total) >= abs((SELECT sum(n.total) FROM billing_invoice n
                                   WHERE n.corrects_id = c.id AND n.state = 'final'))) THEN
      'it gives back more than is left of the invoice it names'
    WHEN NOT EXISTS (SELECT FROM billing_billingperiod p
                      WHERE p.id = NEW.period_id AND p.state = 'closed') THEN
      'its period is not closed'
    WHEN EXISTS (SELECT FROM billing_invoice o
                  WHERE (o.period_id, o.run) = (NEW.period_id, NEW.run) AND o.state <> 'final') THEN
      'another document of its run is not final'
    WHEN NEW.corrects_id IS NULL AND EXISTS (
      SELECT FROM billing_invoiceline l
        LEFT JOIN billing_runroute r
          ON (r.period_id, r.run, r.project_id) = (NEW.period_id, NEW.run, l.project_id)
       WHERE l.invoice_id = NEW.id
         AND (r.issuer_id, r.recipient_id, coalesce(r.purchase_order, ''))
             IS DISTINCT FROM (NEW.issuer_id, NEW.recipient_id, NEW.purchase_order)) THEN
      'its lines are routed to another document of its run'
    WHEN NEW.corrects_id IS NOT NULL AND NOT EXISTS (
      SELECT FROM billing_invoice c
       WHERE c.id = NEW.corrects_id
         AND (c.issuer_id, c.recipient_id, c.purchase_order)
             IS NOT DISTINCT FROM (NEW.issuer_id, NEW.recipient_id, NEW.purchase_order)) THEN
      'its parties are not those of the invoice it names'
  END;
  IF reason IS NOT NULL THEN
    RAISE EXCEPTION 'invoice % cannot become final: %', NEW.id, reason
      USING ERRCODE = 'restrict_violation', HINT = 'Finalize it: that numbers and checks it.';
  END IF;
  RETURN NULL;
END $$;

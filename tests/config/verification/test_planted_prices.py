"""Charges at a price that their hour had, where a more specific one was known: `verify` says so."""

import psycopg
import pytest

from tests.support.config.planted import unguarded, verify

PLANT = b"""
INSERT INTO billing_price
SELECT (jsonb_populate_record(p, jsonb_build_object(
         'id', gen_random_uuid(), 'published_at', c.created_at + interval '%d s',
         'price_group', c.price_group))).*
  FROM billing_price p
 CROSS JOIN (SELECT * FROM billing_charge WHERE size = 'small' ORDER BY id LIMIT 1) c
 WHERE p.size = 'small'
"""
SENTENCE = "The charges of window 1 are not at the prices of its hour."


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("seconds", [-1, 0])
def test_a_more_specific_price_counts_once_it_was_known(
    seconds: int, owner: psycopg.Connection
) -> None:
    assert verify() == ""

    with unguarded(owner):
        owner.execute(PLANT % seconds)

    assert (SENTENCE in verify()) == (seconds < 0)

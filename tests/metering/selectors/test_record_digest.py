"""A record's line in a seal's digest is the JSON array that PostgreSQL itself makes of it."""

from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from metering.selectors.collection.record_digest import RECORD_LINE
from tests.support.metering.seen import HOUR

AS_ARRAY = """jsonb_build_array(
  extract(epoch FROM u.window_start)::bigint, u.cluster_id, u.pod_uid, u.resource, u.revision,
  u.organization_id, u.project_id, u.owner, u.namespace, u.pod_name, u.node, u.size, u.price_group,
  u.sharing_mode, u.share_numerator, u.share_denominator, u.units, u.split_among,
  extract(epoch FROM u.begin_at)::bigint, extract(epoch FROM u.end_at)::bigint, u.seconds,
  u.unit_seconds, u.end_kind, u.slack_seconds, u.catalogue_version, u.busy_ratio, u.busy_coverage,
  u.energy_millijoules)::text"""
COMPARED = f"""
SELECT {RECORD_LINE}, {AS_ARRAY}
  FROM (SELECT %(hour)s::timestamptz AS window_start, %(cluster)s::uuid AS cluster_id,
               %(text)s::text AS pod_uid, 'nvidia.com/gpu'::varchar AS resource, 0 AS revision,
               %(cluster)s::uuid AS organization_id, %(cluster)s::uuid AS project_id,
               %(text)s::varchar AS owner, %(text)s::varchar AS namespace,
               %(text)s::varchar AS pod_name, %(text)s::varchar AS node, 'large'::varchar AS size,
               %(text)s::varchar AS price_group, 'mig'::varchar AS sharing_mode,
               1 AS share_numerator, 7 AS share_denominator, 2 AS units, 1 AS split_among,
               %(hour)s::timestamptz + %(begin)s * interval '1 second' AS begin_at,
               %(hour)s::timestamptz + %(end)s * interval '1 second' AS end_at,
               %(end)s - %(begin)s AS seconds, %(amount)s::bigint AS unit_seconds,
               'exact'::varchar AS end_kind, 0 AS slack_seconds, 3 AS catalogue_version,
               %(ratio)s::numeric(7,6) AS busy_ratio, %(ratio)s::numeric(6,5) AS busy_coverage,
               %(energy)s::bigint AS energy_millijoules) u
"""  # noqa: S608 - Constants.


def lines(**values: Decimal | str | int | None) -> tuple[str, str]:
    """Return a record's line as it is sealed, and the array that PostgreSQL makes of it."""
    known: dict[str, Any] = {"hour": HOUR, "cluster": uuid4(), "begin": 0, "end": 3600, "amount": 7}
    with connection.cursor() as cursor:
        cursor.execute(COMPARED, {"ratio": None, "energy": None, **known, **values})
        sealed, array = cursor.fetchone()
    return sealed, array


@pytest.mark.django_db
def test_any_text_is_sealed_as_json() -> None:
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))

    @given(texts, st.integers(-(2**62), 2**62))
    def check(text: str, amount: int) -> None:
        sealed, array = lines(text=text, amount=amount)

        assert sealed == array

    check()


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["", "null", '"', "\\", "a\nb\t\x01\x7f", "é\u2028", "{}"])
def test_odd_text_is_sealed_as_json(text: str) -> None:
    sealed, array = lines(text=text)

    assert sealed == array


@pytest.mark.django_db
@pytest.mark.parametrize("ratio", [None, Decimal(0), Decimal("0.12345"), Decimal(1)])
def test_figures_that_are_missing_are_null(ratio: Decimal | None) -> None:
    sealed, array = lines(text="pod", ratio=ratio, energy=None if ratio is None else 9)

    assert sealed == array


@pytest.mark.django_db
@pytest.mark.parametrize(("begin", "end"), [(0, 0), (0, 3600), (1, 2), (3599, 3600)])
def test_times_are_whole_seconds(begin: int, end: int) -> None:
    sealed, array = lines(text="pod", begin=begin, end=end)

    assert sealed == array

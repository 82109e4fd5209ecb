"""A counter opens with what counts already, inside the transaction that makes its limit."""

from quotas.services.limits.changes import open_counter
from tests.support.builders import AT, bind, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.admitting import ask, counted
from tests.support.quotas.builders import make_limit


def test_a_new_counter_begins_with_what_counts_already(cast: Cast) -> None:
    cluster = make_cluster("hopper")
    bind(cluster, "llm", cast.llm)
    ask(cluster, uid="pod-1")
    ask(cluster, uid="pod-2", is_burst=True)
    limit = make_limit(cast.acme)

    counter = open_counter(limit=limit, at=AT)

    assert counted(limit) == (0, 1, 0, 1)
    assert (counter.checked_at, counter.drift_units) == (AT, 0)
    assert counted(make_limit(cast.umbrella)) == (0, 0, 0, 0)

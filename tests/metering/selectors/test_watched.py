"""Which clusters are watched, and what their watches are reported."""

import pytest

from metering.selectors.allocations.watch import watched_clusters
from tests.support.builders import make_cluster

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("mode", "annotation"), [("enforce", "gpu-ledger.io/owner"), ("warn", ""), ("off", "")]
)
def test_the_owner_annotation_is_believed_only_where_admission_enforces(
    mode: str, annotation: str
) -> None:
    make_cluster(is_watched=True, admission_mode=mode)

    (watched,) = watched_clusters()

    assert watched.target.owner_annotation == annotation
    assert watched.target.user_label == "billing_example_com_user"

"""An hour is reported to be waived when a person waived it, whatever its sources were."""

import pytest

from metering.domain.explain import ChargeVerdict
from metering.models import MeteringException, MeteringWindow
from metering.selectors.explain import PodName, explain_pod
from metering.services.catalogue import ensure_catalogue
from tests.support.builders import make_cluster, make_user
from tests.support.metering.allocations.watched import ledgered
from tests.support.metering.seen import ACTOR, HOUR, moment

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("gap_policy", "sources", "is_waived"),
    [
        pytest.param("waive", [], True, id="waived unseen"),
        pytest.param("waive", ["prometheus"], True, id="waived although it was seen"),
        pytest.param("", [], False, id="sealed without a source"),
        pytest.param("hold", [], False, id="held"),
    ],
)
def test_only_what_a_person_waived_is_reported_to_be_waived(
    gap_policy: str, sources: list[str], *, is_waived: bool
) -> None:
    cluster = make_cluster("hopper")
    ensure_catalogue(actor=ACTOR, at=HOUR)
    ledgered(cluster, "a")
    MeteringWindow.objects.create(
        cluster=cluster,
        start_at=HOUR,
        not_before=HOUR,
        gap_policy=gap_policy,
        sources=sources,
        state="sealed",
        as_of=moment(4500),
        sealed_at=moment(4500),
    )

    found = explain_pod(PodName(cluster_id=cluster.pk, uid="a"), begin_at=HOUR, end_at=moment(3600))

    assert [hour.verdict is ChargeVerdict.WAIVED for hour in found.hours] == [is_waived]


def test_what_a_person_settled_is_not_reported_as_lost() -> None:
    cluster = make_cluster("hopper")
    ensure_catalogue(actor=ACTOR, at=HOUR)
    ledgered(cluster, "a")
    window = MeteringWindow.objects.create(
        cluster=cluster,
        start_at=HOUR,
        not_before=HOUR,
        sources=["prometheus"],
        state="sealed",
        as_of=moment(4500),
        sealed_at=moment(4500),
    )
    MeteringException.objects.create(
        cluster=cluster,
        window=window,
        window_start=HOUR,
        kind="unbound_namespace",
        subject="a nvidia_com_gpu",
        summary="Namespace stray belongs to no project.",
        remedy="Bind it.",
        held_unit_seconds=3600,
        state="resolved",
        created_at=HOUR,
        resolved_at=moment(4500),
        resolved_by=make_user("frank"),
        resolution="A test cluster.",
    )

    (hour,) = explain_pod(
        PodName(cluster_id=cluster.pk, uid="a"), begin_at=HOUR, end_at=moment(3600)
    ).hours

    assert (hour.verdict, hour.held_unit_seconds) == (ChargeVerdict.SETTLED, 0)
    assert [step.sentence for step in hour.steps] == [
        "Namespace stray belongs to no project. A test cluster."
    ]

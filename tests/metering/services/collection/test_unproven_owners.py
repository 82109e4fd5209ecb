"""A pod whose owner annotation is not believed is reported once, in the hour of its bind."""

from metering.models import MeteringException
from metering.services.catalogue import ensure_catalogue
from tenants.models import Cluster, Project
from tests.support.metering.allocations.watched import offered, queued, watched
from tests.support.metering.collecting import collect, exceptions
from tests.support.metering.seen import ACTOR, HOUR, moment, observation


def test_an_owner_that_admission_did_not_write_is_reported_in_the_hour_of_the_bind(
    cluster: Cluster, project: Project
) -> None:
    assert project.slug
    ensure_catalogue(actor=ACTOR, at=HOUR)
    watched(cluster)
    offered(cluster)
    for uid, bound_at in (("a", moment(10)), ("before", moment(-10)), ("waits", None)):
        row = queued(cluster, uid, bound_at=bound_at)
        row.unproven_owner = "victim"
        row.save()

    collect(observation())

    assert exceptions() == [("unproven_owner", "a ", 0)]
    assert MeteringException.objects.get().summary == (
        "pod-a names victim as its owner, but admission did not admit it so; it belongs to the "
        "default owner of team-nlp."
    )

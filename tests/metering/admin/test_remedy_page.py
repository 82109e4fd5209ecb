"""The remedy page of an exception: bind the namespace, add a rule, accept one side's evidence."""

from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client

from metering.models import (
    ExceptionState,
    MeteringException,
    MeteringWindow,
    ReconciliationDecision,
)
from metering.services.collection.sweeping import meter_due
from tenants.models import Cluster, NamespaceBinding
from tests.support.builders import bind, make_cluster
from tests.support.cast import Cast, make_cast
from tests.support.metering.seen import HOUR, LATER, WHOLE_H100, moment, observation, pod, worker
from tests.support.shared_rows import shared_rows

pytestmark = pytest.mark.django_db


@shared_rows
def cast() -> Cast:
    """Everybody, after an hour with a stray pod and one on hardware that no rule knows."""
    people = make_cast()
    User.objects.update(is_staff=True)
    bind(make_cluster(metered_from=HOUR), "llm", people.llm)
    strange = {**WHOLE_H100, "nvidia_com_gpu_product": "NVIDIA-H100-80GB-HBM3-MIG-INVALID"}
    seen = observation(
        pod("a", namespace="llm"),
        pod("b", namespace="stray"),
        pod("c", namespace="llm", node="strange", labels=strange),
    )
    meter_due(worker=worker(seen), at=moment(3600 + LATER))
    return people


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page_of(found: MeteringException) -> str:
    return f"/admin/metering/meteringexception/{found.pk}/remedy/"


def unbound() -> MeteringException:
    return MeteringException.objects.get(kind="unbound_namespace")


def sided(kind: str = "differs") -> MeteringException:
    """Return an exception about two sources, in an hour that is not sealed yet."""
    start_at = moment(3600)
    window = MeteringWindow.objects.create(
        cluster=Cluster.objects.get(),
        start_at=start_at,
        state="collected",
        not_before=moment(2 * 3600),
    )
    return MeteringException.objects.create(
        cluster=window.cluster,
        window=window,
        window_start=start_at,
        kind=kind,
        subject="b nvidia_com_gpu",
        namespace="llm",
        summary="The sources differ about pod-b.",
        remedy="Accept the evidence of one.",
        details={
            "pod": "pod-b",
            "kubernetes": {"end_at": "14:40"},
            "prometheus": {"end_at": "14:20"},
        },
        created_at=start_at,
    )


def test_the_list_leads_to_the_remedy(cast: Cast) -> None:
    text = enter(cast.frank).get("/admin/metering/meteringexception/").content.decode()

    assert page_of(unbound()) in text


def test_an_unbound_namespace_is_bound_from_its_hour_on(cast: Cast) -> None:
    client, found = enter(cast.frank), unbound()

    shown = client.get(page_of(found)).content.decode()
    done = client.post(page_of(found), {"project": str(cast.llm.pk)}, follow=True)

    assert "Bind the namespace" in shown
    assert "Acme: LLM" in shown
    assert "stray belongs to LLM from that hour on." in done.content.decode()
    binding = NamespaceBinding.objects.get(namespace="stray")
    assert (binding.project, binding.valid.lower, binding.valid.upper) == (cast.llm, HOUR, None)


def test_a_refusal_stands_on_the_page_and_nothing_is_bound(cast: Cast) -> None:
    found = unbound()
    bind(found.cluster, "stray", cast.vision, begin_at=HOUR)

    text = enter(cast.frank).post(page_of(found), {"project": str(cast.llm.pk)}).content.decode()

    assert "bound" in text
    assert NamespaceBinding.objects.get(namespace="stray").project == cast.vision


def test_without_a_project_nothing_is_bound(cast: Cast) -> None:
    answer = enter(cast.frank).post(page_of(unbound()), {"project": ""})

    assert "This field is required." in answer.content.decode()
    assert not NamespaceBinding.objects.filter(namespace="stray").exists()


def test_unknown_hardware_leads_to_the_catalogue_with_a_rule_begun(cast: Cast) -> None:
    found = MeteringException.objects.get(kind="unknown_device")
    found.details = {**found.details, "cause": "unmapped"}
    found.save()
    client = enter(cast.frank)

    shown = client.get(page_of(found)).content.decode()
    begun = client.get("/admin/metering/catalogueversion/edit/?resource=nvidia.com%2Fgpu")

    assert "/admin/metering/catalogueversion/edit/?resource=nvidia.com%2Fgpu" in shown
    rules = begun.context["form"].initial["rules"]
    assert rules[0] == {"size": None, "resources": ["nvidia.com/gpu"], "products": ["*"]}


def test_where_no_rule_can_help_none_is_begun(cast: Cast) -> None:
    found = MeteringException.objects.get(kind="unknown_device")

    shown = enter(cast.frank).get(page_of(found)).content.decode()

    assert found.details["cause"] == "mig_invalid"
    assert "catalogueversion/edit" not in shown


def test_an_earlier_hour_is_bound_up_to_where_it_belongs_to_somebody(cast: Cast) -> None:
    found = unbound()
    later = datetime(2026, 10, 6, tzinfo=UTC)
    bind(found.cluster, "stray", cast.vision, begin_at=later)

    enter(cast.frank).post(page_of(found), {"project": str(cast.llm.pk)})

    made = NamespaceBinding.objects.get(namespace="stray", project=cast.llm)
    assert (made.valid.lower, made.valid.upper) == (HOUR, later)


@pytest.mark.parametrize("side", ["kubernetes", "prometheus"])
def test_the_evidence_of_one_side_is_accepted(cast: Cast, side: str) -> None:
    client, found = enter(cast.frank), sided()

    shown = client.get(page_of(found)).content.decode()
    client.post(page_of(found), {"side": side, "note": "The kubelet's log says so."})

    assert "Kubernetes end at" in shown
    assert "14:40" in shown
    assert ReconciliationDecision.objects.get().side == side
    found.refresh_from_db()
    assert (found.state, found.resolution) == (
        ExceptionState.RESOLVED,
        "The kubelet's log says so.",
    )


@pytest.mark.parametrize(
    "pressed", [{"note": "Why."}, {"side": "both", "note": "Why."}, {"side": "prometheus"}]
)
def test_a_side_and_a_reason_are_needed(cast: Cast, pressed: dict[str, str]) -> None:
    found = sided()

    answer = enter(cast.frank).post(page_of(found), pressed)

    assert answer.status_code == 200
    assert not ReconciliationDecision.objects.exists()
    found.refresh_from_db()
    assert found.state == ExceptionState.OPEN


@pytest.mark.parametrize("kind", ["low_coverage", "source_unavailable", "overdue", "quarantined"])
def test_what_stops_a_whole_hour_leads_to_the_decisions_on_it(cast: Cast, kind: str) -> None:
    found = sided(kind)
    MeteringWindow.objects.filter(pk=found.window_id).update(state="gap")
    client = enter(cast.frank)

    shown = client.get(page_of(found)).content.decode()

    hour = f"/admin/metering/meteringwindow/{found.window_id}/"
    assert "There is no button for this one" not in shown
    for path in ("accept", "last-known", "hold", "waive", "change"):
        assert f'href="{hour}{path}/"' in shown
        assert client.get(f"{hour}{path}/").status_code == 200


def test_an_hour_that_is_tried_by_itself_offers_no_decision_yet(cast: Cast) -> None:
    found = sided("source_unavailable")
    MeteringWindow.objects.filter(pk=found.window_id).update(
        state="open", start_at=datetime.now(tz=UTC).replace(minute=0, second=0, microsecond=0)
    )

    shown = enter(cast.frank).get(page_of(found)).content.decode()

    assert "it can be decided on once it is a day old" in shown
    assert f"/meteringwindow/{found.window_id}/change/" in shown
    assert f"/meteringwindow/{found.window_id}/accept/" not in shown


def test_an_auditor_sees_the_evidence_without_buttons(cast: Cast) -> None:
    found = unbound()
    client = enter(cast.ann)

    shown = client.get(page_of(found)).content.decode()
    client.post(page_of(found), {"project": str(cast.llm.pk)})

    assert "Namespace stray belongs to no project at that time." in shown
    assert "Bind the namespace</button>" not in shown
    assert not NamespaceBinding.objects.filter(namespace="stray").exists()


def test_a_resolved_one_offers_nothing_more(cast: Cast) -> None:
    found = sided()
    found.state, found.resolution = ExceptionState.RESOLVED, "Seen to."
    found.save()

    shown = enter(cast.frank).get(page_of(found)).content.decode()

    assert "Seen to." in shown
    assert "Accept Prometheus" not in shown


def test_what_is_not_there_is_not_found(cast: Cast) -> None:
    assert (
        enter(cast.frank).get("/admin/metering/meteringexception/9999/remedy/").status_code == 404
    )

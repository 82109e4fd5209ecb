"""Exceptions: a person's resolution holds while the facts do."""

import pytest

from metering.domain.corrections.exceptions import ExceptionKind, Finding
from metering.domain.errors import (
    ExceptionResolvedError,
    MeteringExceptionNotFoundError,
    NoteMissingError,
)
from metering.models import ExceptionState, MeteringException
from metering.services.collection.composed import ClaimedWindow
from metering.services.collection.findings import write_findings
from metering.services.collection.windows import claim_windows, open_due_windows
from metering.services.corrections.exceptions import resolve_exception
from tenants.models import AuditEntry
from tests.support.builders import make_cluster
from tests.support.metering.seen import ACTOR, HOUR, LATER, moment

pytestmark = pytest.mark.django_db

DUE = moment(3600 + LATER)
STRAY = Finding(
    kind=ExceptionKind.UNBOUND_NAMESPACE,
    subject="a nvidia_com_gpu",
    namespace="stray",
    summary="Nobody's.",
    held_unit_seconds=60,
    details={"units": 1},
)


@pytest.fixture
def claimed() -> ClaimedWindow:
    make_cluster(metered_from=HOUR)
    open_due_windows(at=DUE)
    [found] = claim_windows(worker="w", limit=1, at=DUE)
    return found


def write(claimed: ClaimedWindow, *findings: Finding) -> MeteringException:
    write_findings(claimed, findings=findings, at=DUE)
    return MeteringException.objects.get()


def resolve(found: MeteringException, note: str = "Looked at.") -> None:
    resolve_exception(exception_id=found.pk, note=note, actor=ACTOR, at=DUE)


def test_a_finding_is_kept_with_its_remedy(claimed: ClaimedWindow) -> None:
    found = write(claimed, STRAY)

    assert (found.kind, found.subject, found.namespace) == (
        "unbound_namespace",
        "a nvidia_com_gpu",
        "stray",
    )
    assert (found.summary, found.remedy) == ("Nobody's.", STRAY.remedy)
    assert (found.held_unit_seconds, found.details, found.state) == (60, {"units": 1}, "open")


def test_what_is_gone_resolves_itself_and_what_is_back_opens_again(
    claimed: ClaimedWindow,
) -> None:
    write(claimed, STRAY)

    gone = write(claimed)
    assert (gone.state, gone.resolved_by_id) == ("resolved", None)
    assert gone.resolution == "No longer so when the window was metered again."

    back = write(claimed, STRAY)
    assert (back.state, back.resolved_at, back.resolution) == ("open", None, "")


def test_what_a_person_resolved_stays_resolved_while_the_facts_do(
    claimed: ClaimedWindow,
) -> None:
    resolve(write(claimed, STRAY))

    same = write(claimed, STRAY)
    assert (same.state, same.resolution) == ("resolved", "Looked at.")

    worse = Finding(**{**vars(STRAY), "details": {"units": 8}})
    other = write(claimed, worse)
    assert (other.state, other.details) == ("open", {"units": 8})


def test_what_holds_more_than_a_person_saw_opens_again(claimed: ClaimedWindow) -> None:
    resolve(write(claimed, STRAY))

    more = write(claimed, Finding(**{**vars(STRAY), "held_unit_seconds": 61}))

    assert (more.state, more.held_unit_seconds, more.resolution) == ("open", 61, "")


def test_a_resolution_is_in_the_audit_trail(claimed: ClaimedWindow) -> None:
    found = write(claimed, STRAY)
    resolve(found, "  A test.  ")

    entry = AuditEntry.objects.get()
    assert (entry.action, entry.object_id) == ("metering:exception:resolve", str(found.pk))
    assert entry.facts == {
        "kind": "unbound_namespace",
        "subject": "a nvidia_com_gpu",
        "held_unit_seconds": 60,
        "note": "A test.",
    }


def test_a_resolution_needs_a_reason_an_exception_and_happens_once(
    claimed: ClaimedWindow,
) -> None:
    found = write(claimed, STRAY)

    with pytest.raises(NoteMissingError):
        resolve(found, " ")
    found.refresh_from_db()
    assert found.state == ExceptionState.OPEN
    with pytest.raises(MeteringExceptionNotFoundError):
        resolve_exception(exception_id=0, note="x", actor=ACTOR, at=DUE)
    resolve(found)
    with pytest.raises(ExceptionResolvedError):
        resolve(found)
    assert AuditEntry.objects.count() == 1

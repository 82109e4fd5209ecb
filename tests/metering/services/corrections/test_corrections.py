"""People correct single records with a reason; two of them where the site asks for four eyes."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from metering.domain.errors import (
    CorrectionBelowZeroError,
    CorrectionDecidedError,
    CorrectionEmptyError,
    CorrectionFourEyesError,
    CorrectionNotFoundError,
    CorrectionStaleError,
    CorrectionTooLargeError,
    NoteMissingError,
    WindowNotSealedError,
)
from metering.models import CapacityRecord, MeteringWindow, UsageCorrection, UsageRecord
from metering.services.collection.sweeping import Worker
from metering.services.corrections.review import (
    approve_correction,
    ask_correction,
    reject_correction,
)
from tenants.domain.actors import Actor, ActorKind
from tenants.domain.errors import DomainError
from tenants.domain.identifiers import new_id
from tenants.models import AuditEntry, Project
from tests.support.metering.rechecking import (
    FIRST,
    SECOND,
    THIRD,
    corrections,
    learn,
    recheck,
    revisions,
    seal_hour,
    sums,
)
from tests.support.metering.seen import ended_pod, moment

FRANK = Actor(kind=ActorKind.PERSON, id="7", label="frank")
FAYE = Actor(kind=ActorKind.PERSON, id="8", label="faye")

pytestmark = pytest.mark.django_db


@pytest.fixture
def metering(project: Project) -> Worker:
    """A sealed hour in which pod `a` used two units, 1,200 s long."""
    del project
    return seal_hour(ended_pod("a", 600, 1800, units=2))


def ask(unit_seconds: int | None, **fields: Any) -> UsageCorrection:  # noqa: ANN401 - Any argument of the service.
    given: dict[str, Any] = {
        "record": UsageRecord.objects.filter(pod_uid="a").earliest("revision"),
        "unit_seconds": unit_seconds,
        "reason": "The node was broken.",
        "is_four_eyes": True,
        "actor": FRANK,
        "at": FIRST,
    }
    return ask_correction(**{**given, **fields})


def approve(correction: UsageCorrection, **fields: Any) -> UsageCorrection:  # noqa: ANN401 - Any argument of the service.
    given: dict[str, Any] = {
        "correction_id": correction.pk,
        "note": "",
        "is_four_eyes": True,
        "actor": FAYE,
        "at": SECOND,
    }
    return approve_correction(**{**given, **fields})


@pytest.mark.usefixtures("metering")
class TestAsking:
    def test_with_four_eyes_it_waits_for_a_second_person(self, project: Project) -> None:
        made = ask(-600, reason=" The node was broken. ")

        assert corrections() == [("manual", "proposed", 1, -600)]
        assert (made.requested_by, made.requested_by_id, made.requested_at) == ("frank", "7", FIRST)
        assert (made.reason, made.decided_at, made.project) == (
            "The node was broken.",
            None,
            project,
        )
        assert sums() == {"a": 2400}
        entry = AuditEntry.objects.get(action="metering:correction:ask")
        assert (entry.organization_id, entry.object_id) == (project.organization_id, str(made.pk))
        assert entry.facts["digest"] == made.digest

    def test_without_four_eyes_it_is_posted_at_once(self) -> None:
        made = ask(-600, is_four_eyes=False)

        assert (made.state, made.decided_by, made.decided_at) == ("posted", "frank", FIRST)
        assert revisions() == [("a", 0, 2400), ("a", 1, -600)]
        assert AuditEntry.objects.filter(action="metering:correction:post").count() == 1

    def test_a_retraction_takes_all_there_is(self) -> None:
        ask(-600, is_four_eyes=False)

        made = ask(None, is_four_eyes=False)

        assert (made.cause, made.unit_seconds) == ("retraction", -1800)
        assert sums() == {"a": 0}
        last = UsageRecord.objects.get(revision=2)
        assert (last.seconds, last.begin_at, last.end_at) == (0, moment(600), moment(600))

    def test_use_can_be_added_up_to_what_the_units_can_use(self) -> None:
        ask(4800, is_four_eyes=False)

        assert sums() == {"a": 7200}

    @pytest.mark.parametrize(
        ("unit_seconds", "refusal", "code"),
        [
            (0, CorrectionEmptyError, "usage_correction_empty"),
            (-2401, CorrectionBelowZeroError, "usage_correction_below_zero"),
            (4801, CorrectionTooLargeError, "usage_correction_too_large"),
        ],
    )
    @pytest.mark.parametrize("is_four_eyes", [True, False])
    def test_what_cannot_be_is_refused(
        self, unit_seconds: int, refusal: type[DomainError], code: str, is_four_eyes: object
    ) -> None:
        with pytest.raises(refusal) as refused:
            ask(unit_seconds, is_four_eyes=is_four_eyes)

        assert (refused.value.code, refused.value.field) == (code, "unit_seconds")
        assert (corrections(), sums()) == ([], {"a": 2400})

    def test_what_is_retracted_already_is_not_retracted_again(self) -> None:
        ask(None, is_four_eyes=False)

        with pytest.raises(CorrectionEmptyError):
            ask(None, is_four_eyes=False)

        assert len(corrections()) == 1

    @pytest.mark.parametrize("reason", ["", "  "])
    def test_nothing_is_corrected_without_a_reason(self, reason: str) -> None:
        with pytest.raises(NoteMissingError) as refused:
            ask(-1, reason=reason)

        assert refused.value.field == "reason"
        assert corrections() == []

    def test_capacity_follows(self) -> None:
        ask(-600, is_four_eyes=False)

        balance = CapacityRecord.objects.values_list(
            "capacity_unit_seconds", "billed_unit_seconds", "idle_unit_seconds"
        )
        assert balance.get() == (28_800, 1_800, 27_000)


def test_an_hour_that_is_not_sealed_is_metered_again_instead(metering: Worker) -> None:
    del metering
    record = UsageRecord.objects.get()
    record.window = MeteringWindow.objects.create(
        cluster=record.cluster, start_at=moment(-3600), not_before=FIRST
    )

    with pytest.raises(WindowNotSealedError) as refused:
        ask(-1, record=record)

    assert refused.value.facts == {"state": "open"}
    assert "Meter the window again" in refused.value.advice
    assert corrections() == []


@pytest.mark.usefixtures("metering")
class TestDeciding:
    def test_a_second_person_posts_it(self, project: Project) -> None:
        asked = ask(-600)

        posted = approve(asked, note="Agreed.")

        assert (posted.state, posted.decided_by, posted.decision_note, posted.version) == (
            "posted",
            "faye",
            "Agreed.",
            2,
        )
        assert revisions() == [("a", 0, 2400), ("a", 1, -600)]
        entry = AuditEntry.objects.get(action="metering:correction:post")
        assert (entry.organization_id, entry.facts["unit_seconds"]) == (
            project.organization_id,
            -600,
        )
        assert entry.facts["digest"] == asked.digest

    def test_who_asked_may_not_approve(self) -> None:
        asked = ask(-600)

        with pytest.raises(CorrectionFourEyesError) as refused:
            approve(asked, actor=FRANK)

        assert (refused.value.code, refused.value.status) == (
            "usage_correction_needs_four_eyes",
            403,
        )
        assert (corrections()[0][1], sums()) == ("proposed", {"a": 2400})

    def test_who_asked_may_approve_where_the_site_says_so(self) -> None:
        assert approve(ask(-600), actor=FRANK, is_four_eyes=False).state == "posted"

    def test_a_rejected_one_changes_nothing(self) -> None:
        rejected = reject_correction(
            correction_id=ask(-600).pk, note="It was not.", actor=FAYE, at=SECOND
        )

        assert (rejected.state, rejected.decision_note) == ("rejected", "It was not.")
        assert sums() == {"a": 2400}
        assert AuditEntry.objects.filter(action="metering:correction:reject").count() == 1

    def test_a_rejection_needs_a_reason(self) -> None:
        asked = ask(-600)

        with pytest.raises(NoteMissingError) as refused:
            reject_correction(correction_id=asked.pk, note=" ", actor=FAYE, at=SECOND)

        assert refused.value.field == "note"
        assert corrections()[0][1] == "proposed"

    def test_it_is_decided_once(self) -> None:
        asked = ask(-600)
        approve(asked)

        with pytest.raises(CorrectionDecidedError):
            approve(asked)
        with pytest.raises(CorrectionDecidedError):
            reject_correction(correction_id=asked.pk, note="No.", actor=FAYE, at=THIRD)

        assert sums() == {"a": 1800}

    def test_what_does_not_exist_is_not_found(self) -> None:
        with pytest.raises(CorrectionNotFoundError):
            approve_correction(correction_id=new_id(), is_four_eyes=True, actor=FAYE, at=SECOND)

    def test_of_two_asked_at_once_the_second_is_stale(self) -> None:
        first, second = ask(-600), ask(None)
        approve(first)

        with pytest.raises(CorrectionStaleError) as refused:
            approve(second)

        assert refused.value.facts == {"pod_uid": "a", "resource": "nvidia.com/gpu"}
        assert sums() == {"a": 1800}
        assert UsageCorrection.objects.get(pk=second.pk).state == "proposed"

    def test_approving_many_records_takes_no_more_statements(self) -> None:
        counts = []
        for delta in (-1, -2):
            asked = ask(delta)
            with CaptureQueriesContext(connection) as asked_for:
                approve(asked)
            counts.append(len(asked_for))

        assert counts[0] == counts[1]


def test_no_source_overrules_what_a_person_corrected(metering: Worker) -> None:
    ask(None, is_four_eyes=False)
    learn(metering, ended_pod("a", 600, 2400, units=2))

    recheck(metering, SECOND)

    assert corrections() == [
        ("retraction", "posted", 1, -2400),
        ("late_data", "proposed", 1, 1200),
    ]
    assert sums() == {"a": 0}
    recheck(metering, THIRD)
    assert len(corrections()) == 2


def test_a_person_approves_what_a_recheck_proposed(metering: Worker) -> None:
    ask(None, is_four_eyes=False)
    learn(metering, ended_pod("a", 600, 2400, units=2))
    recheck(metering, SECOND)
    proposed = UsageCorrection.objects.get(state="proposed")

    approve(proposed, actor=FRANK)

    assert revisions() == [("a", 0, 2400), ("a", 1, -2400), ("a", 2, 1200)]


def test_what_a_person_rejected_is_not_proposed_again(metering: Worker) -> None:
    ask(None, is_four_eyes=False)
    learn(metering, ended_pod("a", 600, 2400, units=2))
    recheck(metering, SECOND)
    proposed = UsageCorrection.objects.get(state="proposed")
    reject_correction(correction_id=proposed.pk, note="Broken node.", actor=FAYE, at=SECOND)

    recheck(metering, THIRD)

    assert [state for _, state, _, _ in corrections()] == ["posted", "rejected"]
    assert sums() == {"a": 0}

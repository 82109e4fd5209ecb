"""What the database itself holds about preemption."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Model
from django.db.utils import DatabaseError

from quotas.domain.preemption.states import PlanState, StepState, may_become
from quotas.models import PreemptionAction, PreemptionPlan, ProtectedWindow
from tests.support.builders import AT, make_cluster
from tests.support.cast import Cast
from tests.support.quotas.preempting import admit, make_plan, make_step, protect
from tests.support.shared_rows import shared_rows


def update(row: Model, **fields: Any) -> int:  # noqa: ANN401 - Any column.
    with transaction.atomic():
        return type(row)._default_manager.filter(pk=row.pk).update(**fields)  # noqa: SLF001


@shared_rows
def plan(cast: Cast) -> PreemptionPlan:
    return make_plan(cast.acme)


@shared_rows
def step(cast: Cast, plan: PreemptionPlan) -> PreemptionAction:
    return make_step(plan, admit(make_cluster("hopper"), cast.llm, "a"))


@pytest.mark.parametrize("fields", [{"overage": [{"units": 1}]}, {"planned_by": "mallory"}])
def test_what_was_shown_cannot_be_changed(plan: PreemptionPlan, fields: dict[str, Any]) -> None:
    with pytest.raises(DatabaseError, match="a plan is what was shown"):
        update(plan, **fields)


@pytest.mark.parametrize("state", [PlanState.DONE, PlanState.STOPPED, PlanState.EXPIRED])
def test_an_ended_plan_stays_as_it_ended(plan: PreemptionPlan, state: PlanState) -> None:
    update(plan, state=state.value)

    with pytest.raises(DatabaseError, match="ends once"):
        update(plan, message="Other.")


def test_an_organization_has_one_running_plan(cast: Cast, plan: PreemptionPlan) -> None:
    update(plan, state=PlanState.RUNNING.value, not_before=AT)

    with pytest.raises(IntegrityError, match="preemption_plan_one_running"), transaction.atomic():
        make_plan(cast.acme, state=PlanState.RUNNING.value, not_before=AT)
    make_plan(cast.umbrella, state=PlanState.RUNNING.value, not_before=AT)


def test_a_running_plan_has_a_time_for_its_next_step(plan: PreemptionPlan) -> None:
    with pytest.raises(IntegrityError, match="preemption_plan_runs_at_a_time"):
        update(plan, state=PlanState.RUNNING.value)


@pytest.mark.parametrize("fields", [{"pod_uid": "other"}, {"reason": "Other."}, {"victim": 7}])
def test_a_step_is_about_the_pod_it_was_planned_for(
    step: PreemptionAction, fields: dict[str, Any]
) -> None:
    with pytest.raises(DatabaseError, match="a step is about the pod"):
        update(step, **fields)


@pytest.mark.parametrize("state", [StepState.FREED, StepState.NEEDLESS])
def test_an_ended_step_does_not_begin_again(step: PreemptionAction, state: StepState) -> None:
    update(step, state=state.value)

    with pytest.raises(DatabaseError, match="ends once"):
        update(step, state=StepState.PLANNED.value)
    assert update(step, resumed_at=AT) == 1
    with pytest.raises(DatabaseError, match="ends once"):
        update(step, resumed_at=None)


def test_one_plan_takes_a_pod_once(step: PreemptionAction, plan: PreemptionPlan) -> None:
    with pytest.raises(IntegrityError, match="preemption_action_once"), transaction.atomic():
        PreemptionAction.objects.create(
            plan=plan,
            victim=1,
            cluster=step.cluster,
            namespace="llm",
            pod_name="again",
            pod_uid=step.pod_uid,
            project=step.project,
            started_at=AT,
            reason="Again.",
            step="evict",
        )


def test_only_the_end_of_a_protected_window_moves(cast: Cast) -> None:
    window = protect(cast.acme)
    sooner = DateTimeTZRange(window.valid.lower, AT)

    assert update(window, valid=sooner) == 1
    with pytest.raises(DatabaseError, match="only the end"):
        update(window, valid=DateTimeTZRange(AT - timedelta(hours=2), AT))
    with pytest.raises(DatabaseError, match="only the end"):
        update(window, project=cast.llm)
    assert update(window, valid=DateTimeTZRange(AT, AT)) == 1


def test_a_cancelled_window_stays_so_and_was_cancelled_before_it_began(cast: Cast) -> None:
    begun, coming = protect(cast.acme), protect(cast.acme, begin_at=AT)

    with pytest.raises(IntegrityError, match="cancelled_before_begin"), transaction.atomic():
        ProtectedWindow.objects.filter(pk=begun.pk).update(cancelled_at=AT)
    assert update(coming, cancelled_at=AT) == 1
    with pytest.raises(DatabaseError, match="only the end"):
        update(coming, cancelled_at=None)


def test_a_protected_window_has_a_begin_and_an_end(cast: Cast) -> None:
    with pytest.raises(IntegrityError, match="protected_window_is_bounded"), transaction.atomic():
        ProtectedWindow.objects.create(
            organization=cast.acme,
            valid=DateTimeTZRange(AT, None),
            reason="for ever",
            created_by="frank",
            created_at=AT,
        )


@pytest.mark.parametrize("table", ["preemptionplan", "preemptionaction", "protectedwindow"])
@pytest.mark.parametrize("statement", ["DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_evidence_is_never_deleted(
    cast: Cast, step: PreemptionAction, table: str, statement: str
) -> None:
    protect(cast.acme)

    with (
        pytest.raises(DatabaseError),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(f"quotas_{table}"))
    assert PreemptionAction.objects.get().pk == step.pk


def test_a_plan_moves_on_and_never_back() -> None:
    moves = {(a.value, b.value) for a in PlanState for b in PlanState if may_become(a, b)}

    assert moves == {
        ("planned", "running"),
        ("planned", "stopped"),
        ("planned", "expired"),
        ("running", "done"),
        ("running", "stopped"),
        ("running", "expired"),
    }


def test_rows_are_reported_by_what_they_are_about(cast: Cast, step: PreemptionAction) -> None:
    assert str(step) == "evict llm/a (planned)"
    assert str(step.plan) == f"plan of 2026-11-02 09:00 for {cast.acme} (planned)"
    assert str(protect(cast.acme, cast.llm)) == f"{cast.llm}: release"

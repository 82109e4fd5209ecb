"""Celery's settings: the laws that keep a task from running twice at once, and from being lost."""

import re
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings

import quotas.tasks
from config.celery import (
    QUEUES,
    TASK_SOFT_TIME_LIMIT_SECONDS,
    TASK_TIME_LIMIT_SECONDS,
    VISIBILITY_TIMEOUT_SECONDS,
    app,
)
from quotas.services.lending import loans
from quotas.tasks import fair_use
from tenants.models import SweepCrash
from tenants.services.wakeups import WakeUp, queue_of

ROOT = Path(__file__).resolve().parent.parent.parent
APPS = ("tenants", "metering", "quotas", "billing")


def test_a_task_is_over_before_its_message_is_given_out_again() -> None:
    assert TASK_SOFT_TIME_LIMIT_SECONDS < TASK_TIME_LIMIT_SECONDS < VISIBILITY_TIMEOUT_SECONDS
    assert app.conf.task_soft_time_limit == TASK_SOFT_TIME_LIMIT_SECONDS
    assert app.conf.task_time_limit == TASK_TIME_LIMIT_SECONDS
    assert app.conf.visibility_timeout == VISIBILITY_TIMEOUT_SECONDS
    assert app.conf.broker_transport_options["visibility_timeout"] == VISIBILITY_TIMEOUT_SECONDS
    longer = {
        name: task.acks_late
        for name, task in own_tasks().items()
        if (task.time_limit or 0) > TASK_TIME_LIMIT_SECONDS
    }
    assert longer == {"billing.tick_exports": False}, "Its message is gone before it begins."


def test_a_killed_worker_gives_its_task_back_soon() -> None:
    assert app.conf.task_acks_late is True
    assert app.conf.task_reject_on_worker_lost is True
    assert app.conf.worker_prefetch_multiplier == 1
    options = app.conf.broker_transport_options
    assert (options["unacked_restore_interval"], options["unacked_restore_throttle"]) == (5, 1)


def test_messages_are_json_and_carry_no_result() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.task_ignore_result is True
    assert app.conf.result_backend is None


def test_a_stopping_worker_has_time_to_finish_a_tick() -> None:
    assert app.conf.worker_soft_shutdown_timeout == 30
    assert app.conf.worker_max_tasks_per_child == 500


def test_the_broker_is_the_one_of_the_settings() -> None:
    wanted = urlsplit(settings.REDIS_URL)

    with app.connection_for_write() as connection:
        assert (connection.hostname, connection.port) == (wanted.hostname, wanted.port)
        assert connection.transport_cls == wanted.scheme


def test_every_beat_names_a_task_of_an_app_and_none_is_a_month_away() -> None:
    app.loader.import_default_modules()
    for name, entry in app.conf.beat_schedule.items():
        assert entry["task"] in app.tasks, name
        assert entry["task"].split(".")[1].startswith("tick_"), name
        assert 5 <= entry["schedule"] <= 3600, name
        assert set(entry) == {"task", "schedule"}, "A wake-up carries no argument and no expiry."


def test_retries_wait_in_the_tables_not_in_the_broker() -> None:
    webhooks = [*ROOT.glob("*/tasks.py"), *ROOT.glob("*/tasks/*.py")]
    assert {path.relative_to(ROOT).parts[0] for path in webhooks} == set(APPS)
    for path in webhooks:
        source = path.read_text(encoding="utf-8")

        assert not re.search(r"countdown|\beta=|\.retry\(|autoretry_for", source), path


def own_tasks() -> dict[str, WakeUp]:
    for name in APPS:
        import_module(f"{name}.tasks")
    return {name: task for name, task in app.tasks.items() if name.split(".")[0] in APPS}


def test_the_names_of_tasks_stay_for_they_stand_in_messages_that_wait() -> None:
    assert {name for name in own_tasks() if name.startswith("quotas.")} == {
        "quotas.tick_enforcement",
        "quotas.tick_fair_use",
        "quotas.tick_live_use",
        "quotas.tick_preemption",
        "quotas.tick_repair",
        "quotas.tick_requests",
        "quotas.tick_retention",
    }


def test_each_kind_of_work_has_its_queue_and_a_worker_without_a_choice_serves_all() -> None:
    assert [queue.name for queue in app.conf.task_queues] == list(QUEUES)
    queues = {name: queue_of(name) for name in own_tasks()}

    assert {name for name, queue in queues.items() if queue == "metering"} == {
        "metering.collect_devices",
        "metering.meter_windows",
        "metering.recheck_windows",
    }
    assert {name for name, queue in queues.items() if queue == "short"} == {
        "quotas.tick_enforcement",
        "quotas.tick_live_use",
        "tenants.tick_notifications",
        "tenants.tick_password_links",
    }


@pytest.mark.django_db
def test_a_task_that_fails_as_a_whole_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(fair_use, "share_fairly", crash)

    ended = quotas.tasks.tick_fair_use.apply()

    assert ended.state == "FAILURE"
    row = SweepCrash.objects.get()
    assert (row.event, row.count) == ("quotas.tick_fair_use.failed", 1)
    assert (row.last_key, row.last_error) == ("", "ZeroDivisionError")


@pytest.mark.django_db
def test_a_task_whose_time_is_over_fails_under_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def take_long(**_: object) -> None:
        raise SoftTimeLimitExceeded

    monkeypatch.setattr(fair_use, "due_loan_ids", lambda **_: ["acme's"])
    monkeypatch.setattr(loans, "end_loan", take_long)

    ended = quotas.tasks.tick_fair_use.apply()

    assert ended.state == "FAILURE"
    row = SweepCrash.objects.get()
    assert (row.event, row.count) == ("quotas.tick_fair_use.failed", 1)
    assert (row.last_key, row.last_error) == ("", "SoftTimeLimitExceeded")

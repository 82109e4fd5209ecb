"""The collector of cycles: calm, but not off."""

import gc
import importlib
import weakref
from collections.abc import Iterator

import pytest
from celery.signals import worker_process_init

from config.celery import THRESHOLDS, calm_collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Give this process its own collector back."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class Knot:
    """Something that holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_collected_seldom_but_still() -> None:
    calm_collector()

    assert gc.get_threshold() == THRESHOLDS
    assert gc.isenabled()
    knot = weakref.ref(Knot())
    gc.collect()
    assert knot() is None


def test_a_worker_process_begins_calm() -> None:
    gc.set_threshold(700, 10, 10)

    worker_process_init.send(sender=None)

    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0


def test_a_web_server_begins_calm() -> None:
    gc.set_threshold(700, 10, 10)

    importlib.reload(importlib.import_module("config.wsgi"))

    assert gc.get_threshold() == THRESHOLDS
    assert gc.get_freeze_count() > 0

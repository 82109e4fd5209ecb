"""Undisturbed: no search for cycles while a window is metered, and all of them afterwards."""

import gc
from collections.abc import Iterator
from typing import Self

import pytest

from metering.protocols import DeviceFigures, Observation
from metering.services.collection.collecting import collect_window
from metering.services.collection.observing import repeatable_read
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.collecting import DUE, claim
from tests.support.metering.seen import ACTOR


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Give this process its own collector back."""
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_enabled else gc.disable)()


class Watching:
    """A source that only notes whether cycles are searched for meanwhile."""

    def __init__(self) -> None:
        self.searched: list[bool] = []

    def observe(self, *_: object, **__: object) -> Observation:
        """See nothing."""
        self.searched.append(gc.isenabled())
        raise SourceUnavailableError("There is nothing to see.", reason="unreachable")

    def prefetch(self, *_: object) -> Self:
        """See nothing together."""
        return self

    def memory(self, *_: object) -> None:
        """Say nothing of what is kept."""

    def observe_devices(self, *_: object, **__: object) -> DeviceFigures:
        """See nothing of devices either."""
        raise SourceUnavailableError("There is nothing to see.", reason="unreachable")


def test_nothing_searches_for_cycles_inside_and_everything_does_afterwards() -> None:
    with repeatable_read():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_a_block_that_fails_gives_the_search_back_too() -> None:
    with pytest.raises(ValueError, match="broken"), repeatable_read():
        raise ValueError("broken")

    assert gc.isenabled()


def test_who_searches_for_no_cycles_still_does_not_afterwards() -> None:
    gc.disable()

    with repeatable_read():
        assert not gc.isenabled()

    assert not gc.isenabled()


@pytest.mark.usefixtures("project")
def test_a_window_is_metered_in_one_snapshot() -> None:
    source = Watching()

    collect_window(claimed=claim(), source=source, actor=ACTOR, at=DUE)

    assert source.searched == [False]
    assert gc.isenabled()

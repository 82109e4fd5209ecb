"""Crash points are known by name and do nothing by themselves."""

import pytest

from metering.domain.collection.crashpoints import (
    CRASHPOINTS,
    crashpoint,
    install_listener,
    remove_listener,
)


def test_every_point_shows_its_listeners_and_only_them() -> None:
    heard: list[str] = []
    install_listener(heard.append)
    for name in CRASHPOINTS:
        crashpoint(name)
    remove_listener(heard.append)
    crashpoint(CRASHPOINTS[0])

    assert heard == list(CRASHPOINTS)


def test_a_point_nobody_registered_is_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"collect\.somewhere is not registered"):
        crashpoint("collect.somewhere")

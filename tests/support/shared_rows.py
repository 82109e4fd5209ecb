"""Rows that the tests of a module share: made once, and each test is rolled back to them.

What `shared_rows` decorates is a fixture that returns what it made, and takes nothing but others
of its kind. It is called for the first of the tests that follow one another in a module, in a
transaction that stays open for all of them. Each test gets a copy of what it returned, and its own
changes are rolled back to a savepoint. Where a test commits, the fixture is called for it alone.
A fixture that changes anything but rows, such as a simulated cluster, cannot be one of them: the
tests after the first would miss that change.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from select import POLLIN, poll
from typing import Any, Final, TypeVar

import pytest
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.transaction import Atomic
from pytest_django import DjangoDbBlocker

Make = TypeVar("Make", bound=Callable[..., Any])
COPIES: Final = pytest.StashKey[dict[str, Any]]()
MAKER: Final = "shared_rows_are_made_by"


def shared_rows(make: Make) -> Make:
    """Return a fixture whose rows are shared by the tests of a module."""

    def rows(request: pytest.FixtureRequest, **taken: object) -> Any:  # noqa: ANN401 - What was made.
        if not commits(request.node):
            request.getfixturevalue("db")
        copies = request.node.stash.get(COPIES, {})
        return copies[make.__name__] if make.__name__ in copies else make(**taken)

    # Pytest has to know what it takes, to find all that a test shares.
    asked = Parameter("request", Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [asked, *signature(make).parameters.values()]
    setattr(rows, "__signature__", Signature(parameters))  # noqa: B010 - Functions declare none.
    rows.__doc__ = make.__doc__
    setattr(rows, MAKER, make)
    fixture: Any = pytest.fixture(name=make.__name__)(rows)
    return fixture  # type: ignore[no-any-return]


@dataclass
class Layer:
    """What one fixture made, and the transaction or savepoint that it was made in."""

    make: Callable[..., Any]
    begun: Atomic
    made: Any = None


class SharedRows:
    """The layers that are there, lowest first; all belong to tests of one module."""

    def __init__(self) -> None:
        """Begin without any."""
        self._module: Path | None = None
        self._layers: list[Layer] = []

    def close_unwanted(self, item: pytest.Item, *, blocker: DjangoDbBlocker) -> None:
        """Roll back what a test does not begin with."""
        if not self._layers:
            return
        kept = 0
        if self._module == item.path and not self.is_lost():
            makers = makers_of(item).values()
            for layer, make in zip(self._layers, makers, strict=False):
                if layer.make is not make:
                    break
                kept += 1
        with blocker.unblock():
            self._close(down_to=kept)

    def copies_for(self, item: pytest.Item) -> dict[str, Any]:
        """Make the rows that are missing for a test; return its copies by the fixtures' names."""
        makers = makers_of(item)
        made = {name: layer.made for name, layer in zip(makers, self._layers, strict=False)}
        for name, make in list(makers.items())[len(made) :]:
            self._module = item.path
            made[name] = self._make(make, made)
        return deepcopy(made)

    def _make(self, make: Callable[..., Any], made: dict[str, Any]) -> Any:  # noqa: ANN401 - As the fixture.
        begun = transaction.atomic()
        # As Django's own of a test: a durable block may stand in it.
        begun._from_testcase = True  # type: ignore[attr-defined]  # noqa: SLF001
        begun.__enter__()
        layer = Layer(make, begun)
        self._layers.append(layer)
        try:
            layer.made = make(**{name: made[name] for name in signature(make).parameters})
        except BaseException:
            self._close(down_to=len(self._layers) - 1)
            raise
        return layer.made

    def _close(self, *, down_to: int) -> None:
        while len(self._layers) > down_to:
            layer = self._layers.pop()
            connection = connections[DEFAULT_DB_ALIAS]
            if not connection.closed_in_transaction:
                transaction.set_rollback(rollback=True)
            layer.begun.__exit__(None, None, None)

    def is_lost(self) -> bool:
        """Whether the connection was lost, and all rows with it."""
        connection = connections[DEFAULT_DB_ALIAS]
        raw = connection.connection
        if connection.closed_in_transaction or raw is None or raw.closed:
            return True
        # A server that ends an idle connection, as its timeout does, sends why: unread until the
        # next statement.
        unread = poll()
        unread.register(raw.pgconn.socket, POLLIN)
        return bool(unread.poll(0))


SHARED: Final = SharedRows()
"""Of this process: it runs one test at a time."""


def fixtures_of(item: pytest.Item) -> dict[str, Any]:
    """Return the definitions of a test's fixtures by name, the nearest last."""
    found: dict[str, Any] = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009 - Pytest has no public way to them.
    return found


def commits(item: pytest.Item) -> bool:
    """Whether a test has a database of its own."""
    return not {"committed_db", "transactional_db"}.isdisjoint(fixtures_of(item))


def makers_of(item: pytest.Item) -> dict[str, Callable[..., Any]]:
    """Return the shared fixtures of a test by name, those that others take first."""
    known = fixtures_of(item)
    found: dict[str, Callable[..., Any]] = {}

    def add(name: str) -> bool:
        """Add a fixture, if all that it takes can be shared as well."""
        definitions = known.get(name)
        make = definitions and getattr(definitions[-1].func, MAKER, None)
        if not make or not all(add(one) for one in signature(make).parameters):
            return False
        found.setdefault(name, make)
        return True

    for name in () if commits(item) else sorted(known):
        add(name)
    return found

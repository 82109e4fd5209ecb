"""The remedy of each exception: one sentence or more, and all of them true."""

import pytest

from metering.domain.corrections.exceptions import BLOCKING_KINDS, REMEDIES, ExceptionKind
from metering.domain.errors import WindowSealedError

SEALED_WHILE_OPEN = sorted(set(ExceptionKind) - BLOCKING_KINDS)


def test_every_kind_has_a_remedy_of_whole_sentences() -> None:
    assert set(REMEDIES) == set(ExceptionKind)
    for text in REMEDIES.values():
        assert text[0].isupper()
        assert text.endswith(".")


@pytest.mark.parametrize("kind", SEALED_WHILE_OPEN)
def test_what_does_not_block_the_seal_never_sends_people_to_a_sealed_window(
    kind: ExceptionKind,
) -> None:
    assert "meter the window again" not in REMEDIES[kind]
    assert "meter again" not in REMEDIES[kind]


def test_a_sealed_window_sends_people_to_what_can_be_done_about_it() -> None:
    assert WindowSealedError.remedy == (
        "A sealed window never changes; recheck it, or correct its records."
    )

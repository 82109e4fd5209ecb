"""What people are told to do about an exception: one sentence or more for each, and none a lie."""

import pytest

from metering.domain.errors import WindowSealedError
from metering.domain.exceptions import BLOCKING_KINDS, REMEDIES, ExceptionKind

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


def test_a_sealed_window_is_not_said_to_be_corrected_by_what_nobody_can_write() -> None:
    assert WindowSealedError.remedy == (
        "A sealed window never changes; resolve its exceptions with a reason."
    )

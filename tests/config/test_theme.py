"""Tests of the changes to templates of the admin's theme."""

from pathlib import Path

import drf_spectacular
import pytest
import unfold

from config.pages.theme import CHANGES, mend

TEMPLATES = [
    Path(str(library.__file__)).parent / "templates" for library in (unfold, drf_spectacular)
]


@pytest.mark.parametrize(
    ("name", "found"), [(name, found) for name, changes in CHANGES.items() for found, _ in changes]
)
def test_each_change_still_applies_to_the_theme(name: str, found: str) -> None:
    (path,) = [folder / name for folder in TEMPLATES if (folder / name).exists()]

    assert found in path.read_text()


def test_an_icon_is_hidden_from_screen_readers_unless_it_is_a_button() -> None:
    icon = '<span class="material-symbols-outlined md-18">search</span>'
    button = '<span role="button" aria-label="Search" class="material-symbols-outlined">x</span>'

    assert mend("any.html", icon) == icon.replace("<span", '<span aria-hidden="true"')
    assert mend("any.html", button) == button

"""docs/reference/environment.md against config/env.py, field by field."""

from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from config.env import SECRET_NAMES, Environment

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "reference" / "environment.md"
FIELDS = Environment.model_fields


def rows() -> dict[str, tuple[str, str, str]]:
    """Return type, default and meaning by variable, of the page's first table."""
    table = PAGE.read_text("utf-8").split("## ")[0]
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| `")
    ]
    return {name.strip("`"): (kind, default, reported) for name, kind, default, reported in cells}


def shown_default(field: FieldInfo) -> str:
    """Return a default as the page shows it."""
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None:
        return "unset"
    if value in ("", ()):
        return "empty"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`{','.join(map(str, value))}`"
    return f"`{str(value).removesuffix('/')}`"


def bounds(field: FieldInfo) -> list[str]:
    """Return every number that limits a field, as written."""
    names = ("ge", "gt", "le", "lt", "min_length")
    found = [getattr(rule, name, None) for rule in field.metadata for name in names]
    return [str(number) for number in found if isinstance(number, int | Decimal)]


def test_the_page_has_every_variable_in_the_order_of_the_code_and_no_other() -> None:
    assert list(rows()) == list(FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_a_variable_has_its_true_default_and_a_meaning(name: str) -> None:
    _, default, meaning = rows()[name]

    assert default == shown_default(FIELDS[name])
    assert len(meaning) > len("meaning")


@pytest.mark.parametrize("name", FIELDS)
def test_a_variables_type_names_its_choices_and_its_limits(name: str) -> None:
    kind, _, _ = rows()[name]
    field = FIELDS[name]

    choices = [value for value in get_args(field.annotation) if isinstance(value, str)]
    if choices:
        assert kind == ", ".join(f"`{value}`" for value in choices)
    for number in bounds(field):
        assert number in kind


def test_every_secret_that_may_come_from_a_file_is_named_as_such() -> None:
    reported = PAGE.read_text("utf-8").split("## Secrets from files")[1].split("## ")[0]

    for name in SECRET_NAMES:
        assert f"`{name}`" in reported


def test_no_default_of_the_code_is_left_undefined() -> None:
    assert PydanticUndefined not in [
        field.get_default(call_default_factory=True)
        for field in FIELDS.values()
        if not field.is_required()
    ]

"""What is wrong with a row before it is saved: every problem of every field at once."""

from collections.abc import Iterable

from django.core.exceptions import ValidationError
from django.db import models

from tenants.domain.errors import FieldProblem, InvalidInputError


def refuse_invalid(row: models.Model, *, further: Iterable[FieldProblem] = ()) -> None:
    """Refuse a row whose own fields, or the rules of its service, do not hold.

    Args:
        row: Not yet saved, or changed. Relations are not looked at: they are loaded objects.
        further: Problems that the service found.

    Raises:
        InvalidInputError: With every problem, those of the fields first.
    """
    problems = (*field_problems(row), *further)
    if problems:
        raise InvalidInputError(
            "The input cannot be used.",
            field=problems[0].field,
            remedy="Correct the fields named under problems.",
            problems=problems,
        )


def field_problems(row: models.Model) -> tuple[FieldProblem, ...]:
    """Return what the validators of a row's fields find, in the order of the fields."""
    relations = {field.name for field in row._meta.fields if field.is_relation}  # noqa: SLF001
    ranges = {"valid"}
    try:
        row.clean_fields(exclude=relations | ranges)
    except ValidationError as error:
        return tuple(
            FieldProblem(name, one.code or "invalid", " ".join(one.messages))
            for name, errors in error.error_dict.items()
            for one in errors
        )
    return ()

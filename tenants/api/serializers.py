"""Base classes of serializers: strict validation of request bodies, and rows of long lists.

`StrictSerializer` is for input: an unknown or read-only field is a problem and is
not silently dropped. All problems are returned at once. Output serializers are DRF's own, but for
the lists with most columns, which have `RowSerializer`.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from io import BytesIO
from typing import IO, Any, Final, NamedTuple, TypeVar

from django.conf import settings
from django.db.models import Model
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail, ValidationError
from rest_framework.parsers import JSONParser

from tenants.domain.refusals import BodyTooDeepError, BodyTooLargeError


class StrictSerializer(serializers.Serializer[Any]):
    """Input that refuses unknown fields. It validates; services write."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the fields; every one that is a choice names its choices when it refuses."""
        fields = super().get_fields()
        for field in fields.values():
            _name_choices(field)
        return fields

    def to_internal_value(self, data: Any) -> Any:  # noqa: ANN401 - DRF's signature.
        """Return the validated fields.

        Raises:
            ValidationError: With the problems of every field, unknown ones included.
        """
        unknown = _unknown_fields(data, known=self.fields)
        try:
            value = super().to_internal_value(data)
        except ValidationError as error:
            if isinstance(error.detail, dict):
                raise ValidationError({**error.detail, **unknown}) from error
            raise
        if unknown:
            raise ValidationError(unknown)
        return value


class EmptySerializer(StrictSerializer):
    """A body that says nothing: `{}` or none at all."""


def _name_choices(field: serializers.Field[Any, Any, Any, Any]) -> None:
    if isinstance(field, serializers.ListField):
        _name_choices(field.child)
    elif isinstance(field, serializers.ChoiceField):
        field.error_messages["invalid_choice"] = one_of(field.choices)


def one_of(choices: Iterable[object]) -> str:
    """Return what to use instead of what is no choice."""
    return f"Use one of: {', '.join(str(choice) for choice in choices)}."


def _unknown_fields(
    data: object, *, known: Mapping[str, serializers.Field[Any, Any, Any, Any]]
) -> dict[str, list[ErrorDetail]]:
    if not isinstance(data, Mapping):
        return {}
    return {
        str(name): [ErrorDetail("This field is not known here.", code="unknown_field")]
        for name in data
        if name not in known or known[name].read_only
    }


Row = TypeVar("Row", bound=Model)


class RowSerializer(serializers.ModelSerializer[Row]):
    """Output of rows whose fields are columns, properties and methods of the serializer.

    How each field is read and written is looked up once a process. DRF makes the fields for every
    answer and looks that up for every value, which takes longer than the query of a page. The
    answer is the same.
    """

    def to_representation(self, instance: Row) -> dict[str, Any]:
        """Return the values of a row as JSON has them."""
        answer: dict[str, Any] = {}
        for name, source, show in _shown_fields(type(self)):
            if source is None:
                answer[name] = show(self, instance)
            else:
                value = getattr(instance, source)
                answer[name] = None if value is None else show(value)
        return answer


class _ShownField(NamedTuple):
    """How a field is shown: a method of the serializer where it has no source."""

    name: str
    source: str | None
    show: Callable[..., Any]


def _utc_text(time: datetime) -> str:
    """Return a time as DRF writes it where the time zone of the service is UTC."""
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"


_SHOWN: Final[Mapping[type, Callable[[Any], Any]]] = {
    serializers.CharField: str,
    serializers.DateTimeField: _utc_text,
    serializers.IntegerField: int,
    serializers.UUIDField: str,
}
"""What DRF's fields do with a value, without its questions about their options, which none has."""


@cache
def _shown_fields(serializer_class: type[RowSerializer[Any]]) -> tuple[_ShownField, ...]:
    """Return how each field of a serializer is shown.

    Raises:
        ValueError: A field is of another row, or of the whole row.
    """
    shown = []
    for name, field in serializer_class().fields.items():
        if isinstance(field, serializers.SerializerMethodField):
            method = getattr(serializer_class, field.method_name or f"get_{name}")
            shown.append(_ShownField(name, None, method))
        elif len(field.source_attrs) != 1 or isinstance(field, serializers.RelatedField):
            raise ValueError(f"{serializer_class.__name__}.{name} is no column of its row")
        else:
            show = _SHOWN.get(type(field), field.to_representation)
            shown.append(_ShownField(name, field.source_attrs[0], show))
    return tuple(shown)


DEPTH_MAX: Final = 32
"""The deepest body of the API has 5; a program's own recursion ends near 1,000."""


class LimitedJSONParser(JSONParser):
    """DRF's JSON, of at most DATA_UPLOAD_MAX_MEMORY_SIZE bytes and `DEPTH_MAX` levels."""

    def parse(
        self,
        stream: IO[Any],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the body.

        Raises:
            BodyTooLargeError: It has too many bytes; the rest is not read.
            BodyTooDeepError: Its objects and lists are nested too deep.
            ParseError: It is not JSON.
        """
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        text = stream.read(most + 1)
        if len(text) > most:
            raise BodyTooLargeError(f"The body has more than {most} bytes.")
        try:
            body: dict[str, Any] = super().parse(BytesIO(text), media_type, parser_context)
        except RecursionError as error:
            raise _too_deep() from error
        _check_depth(body)
        return body


def _check_depth(body: object) -> None:
    level: list[Any] = [body]
    for _ in range(DEPTH_MAX + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> BodyTooDeepError:
    return BodyTooDeepError(f"The body is nested deeper than {DEPTH_MAX} levels.")

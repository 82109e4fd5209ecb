"""Labels of the admin in the language of the page, marked as its tables are registered.

Django makes most labels from names: the column `unit_price` is headed "unit price". The code has no
text there that could be marked, so each table's names, columns, choices, buttons, hints and form
fields are replaced by texts that are translated when a page shows them. In English they are the
same but for abbreviations, so migrations do not change. `make messages` reads MARKED.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from django.apps import apps
from django.contrib.admin import ModelAdmin
from django.db.models import Field, Model
from django.forms.utils import pretty_name
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

MARKED: Final[dict[str, str]] = {}
"""Every marked text, with the table that has it."""
FORMS: Final = ("form", "action_form")
CAPITALS: Final = re.compile(r"\b(?:api|uid|url)(?=s?\b)")
"""Abbreviations in the names of columns, and of tables in the plural."""
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "quotas.quotarequest": ("quotas.requeststep",),
    "quotas.preemptionplan": ("quotas.preemptionaction",),
}
"""By table, tables without pages of their own, whose states stand on its pages."""


def mark_labels(page: "ModelAdmin[Any]") -> None:
    """Mark what the pages of a table show."""
    origin = page.model._meta.label_lower  # noqa: SLF001 - Documented model meta.
    _mark_model(page.model, origin)
    _mark_page(page, origin)
    for label in PARTS.get(origin, ()):
        for field in apps.get_model(label)._meta.fields:  # noqa: SLF001 - As above.
            _mark_choices(field, label)
    for inline in page.inlines:
        _mark_model(inline.model, origin)
        _mark_page(inline, origin)
    for name in FORMS:
        _mark_form(getattr(page, name), origin)


def _mark(text: Any, origin: str) -> Any:  # noqa: ANN401 - A text, or one that is marked.
    """Return a text as one that is translated where it is shown."""
    if not isinstance(text, str) or isinstance(text, Promise) or not text or text[0] == "<":
        return text
    MARKED.setdefault(text, origin)
    return gettext_lazy(text)


def _capitals(text: Any) -> Any:  # noqa: ANN401 - A text, or one that is marked.
    """Return a name with its abbreviations in capitals, as in "prometheus URL"."""
    if not isinstance(text, str) or isinstance(text, Promise):
        return text
    return CAPITALS.sub(lambda found: found[0].upper(), text)


def _mark_model(model: type[Model], origin: str) -> None:
    meta = model._meta  # noqa: SLF001 - Documented model meta.
    if "verbose_name_plural" not in meta.original_attrs:
        meta.verbose_name_plural = f"{meta.verbose_name_raw}s"
    meta.verbose_name = _mark(meta.verbose_name, origin)
    meta.verbose_name_plural = _mark(_capitals(meta.verbose_name_plural), origin)
    meta.app_config.verbose_name = _mark(meta.app_config.verbose_name, origin)
    for field in (*meta.fields, *meta.many_to_many):
        _mark_field(field, origin)


def _mark_field(field: "Field[Any, Any]", origin: str) -> None:
    field.verbose_name = _mark(_capitals(field.verbose_name), origin)
    field.help_text = _mark(field.help_text, origin)
    _mark_choices(field, origin)


def _mark_choices(field: "Field[Any, Any]", origin: str) -> None:
    """Mark the names of choices, and their values, which pages show as states and kinds."""
    if not field.choices:
        return
    for value, _ in field.flatchoices:
        _mark(str(value).replace("_", " "), origin)
    field.choices = [(value, _mark(label, origin)) for value, label in field.flatchoices]


def _mark_page(page: Any, origin: str) -> None:  # noqa: ANN401 - A page, or the class of an inline.
    """Mark a page's own texts, and what heads the columns that its methods make."""
    kind: Any = page if isinstance(page, type) else type(page)
    for name in dir(kind):
        method = getattr(kind, name, None)
        if callable(method) and hasattr(method, "short_description"):
            method.short_description = _mark(method.short_description, origin)
            if hasattr(method, "done"):
                _mark(method.done, origin)
    for name in _named(page):
        _mark_column(kind, page.model, name, origin)
    for name in ("hint", "day_title"):
        _mark(getattr(page, name, ""), origin)
    texts = getattr(page, "help_texts", None)
    if texts:
        kind.help_texts = {name: _mark(text, origin) for name, text in texts.items()}
    if page.fieldsets:
        page.fieldsets = [(_mark(title, origin), options) for title, options in page.fieldsets]


def _named(page: Any) -> Iterable[str]:  # noqa: ANN401 - As above.
    names = (*getattr(page, "list_display", ()), *page.readonly_fields, *(page.fields or ()))
    return (name for name in names if isinstance(name, str) and not name.startswith("__"))


def _mark_column(kind: type, model: type[Model], name: str, origin: str) -> None:
    """Mark the head of a column that is a method or a property without one of its own."""
    column = getattr(kind, name, None) or getattr(model, name, None)
    made: Any = column.fget if isinstance(column, property) else column
    if callable(made) and not hasattr(made, "short_description"):
        made.short_description = _mark(pretty_name(name), origin)


def _mark_form(form: Any, origin: str) -> None:  # noqa: ANN401 - The class of a form.
    meta = getattr(form, "Meta", None)
    for name in ("labels", "help_texts"):
        texts = getattr(meta, name, None)
        if isinstance(texts, dict):
            setattr(meta, name, {field: _mark(text, origin) for field, text in texts.items()})
    for name, field in form.base_fields.items():
        label = pretty_name(name) if field.label is None else field.label
        field.label, field.help_text = _mark(label, origin), _mark(field.help_text, origin)
        # What Django names the field by where it may only be read.
        field.short_description = field.label

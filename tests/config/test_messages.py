"""What `make messages` reads: texts of templates, modules, the domain and the admin's labels."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from django.conf import settings
from django.template import Context, Template
from django.utils.translation import gettext, override

from config.pages.labels import MARKED
from tests.support.german import catalogue

ROOT = Path(settings.BASE_DIR)
TEMPLATE = """{% load i18n %}
{% translate "Draft" %}
{% translate "90 % and more" as key %}
{% component "card.html" with title=_("Steps") %}
{% blocktranslate with month=label %}Close {{ month }}{% endblocktranslate %}
{% blocktranslate count n=rows %}{{ n }} more pod{% plural %}{{ n }} pods{% endblocktranslate %}
{% blocktranslate with more=rows trimmed %}
  and {{ more }} more
{% endblocktranslate %}
"""
MODULE = """
from django.utils.translation import gettext as g, gettext, gettext_noop, ngettext

TITLE = gettext_noop("Sealed windows")
def show(count):
    gettext("View {name}").format(name=1)
    return ngettext("{count} exception", "{count} exceptions", count)
"""


@pytest.fixture(scope="module")
def messages() -> ModuleType:
    """Return the program, which is no module of the product."""
    spec = importlib.util.spec_from_file_location("messages", ROOT / "bin" / "messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    known = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = known
    return module


def test_a_templates_texts_are_those_that_django_looks_up(
    messages: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(TEMPLATE)

    assert list(messages.texts_of_template(path)) == [
        "Draft",
        "90 %% and more",
        "Steps",
        "Close %(month)s",
        ("%(n)s more pod", "%(n)s pods"),
        "and %(more)s more",
    ]


def test_a_modules_texts_are_those_that_it_marks(messages: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text(MODULE)

    assert list(messages.texts_of_python(path)) == [
        "Sealed windows",
        "View {name}",
        ("{count} exception", "{count} exceptions"),
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("billing.domain.month_board.MonthStep", "ready for review"),
        ("billing.domain.ledger.status.PaymentStatus", "part paid"),
        ("metering.domain.corrections.exceptions.NOTHING_HELD", "nothing"),
        ("quotas.domain.requests.labels.DEEDS", "approved a step"),
        ("billing.domain.documents.line_text.LINE_TEXTS", "Price of a unit-hour"),
    ],
)
def test_texts_of_the_domain_are_read_where_they_are(
    messages: ModuleType, name: str, text: str
) -> None:
    assert name in messages.CONSTANTS
    assert text in list(messages.texts_of_constant(name))
    assert text in catalogue()


def test_every_label_of_the_admin_has_german() -> None:
    assert [text for text in MARKED if not catalogue().get(text)] == []


def test_a_translation_keeps_what_is_filled_in(messages: ModuleType) -> None:
    fields = messages.re.compile(r"%\(\w+\)s|\{\w*\}")
    different = [
        text
        for text, german in catalogue().items()
        if sorted(fields.findall(text)) != sorted(fields.findall(german))
    ]

    assert different == []


def test_a_text_with_a_percent_sign_is_found_by_a_template() -> None:
    template = Template('{% load i18n %}{% translate "90 % and more" %}')

    with override("de"):
        assert template.render(Context()) == "90 % und mehr"


@pytest.mark.parametrize(
    ("text", "german"),
    [
        ("Select record", "Zeile wählen"),
        ("Select action", "Aktion wählen"),
        ("Select action to run", "Aktion zum Ausführen wählen"),
    ],
)
def test_what_lists_of_the_theme_say_from_python_is_in_german(
    messages: ModuleType, text: str, german: str
) -> None:
    assert text in set(messages.theme_texts())
    with override("de"):
        assert gettext(text) == german

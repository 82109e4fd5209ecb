"""The German of translated pages, without the gettext programs.

bin/messages.py write   add new texts to django.po, drop old ones, and compile django.mo
bin/messages.py check   say what is not translated, and whether both files are as written
"""

import io
import os
import re
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from gettext import translation
from importlib import import_module
from itertools import chain
from pathlib import Path

from babel.messages import Catalog, Message
from babel.messages.extract import extract_python
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.template.base import Lexer, Token, TokenType
from django.utils.translation import trim_whitespace

ROOT = Path(__file__).resolve().parent.parent
LANGUAGE = "de"
FOLDER = ROOT / "config" / "locale" / LANGUAGE / "LC_MESSAGES"
PYTHON = (
    "config/*.py",
    "config/app/*.py",
    "config/dashboard/*.py",
    "config/settings/unfold.py",
    "*/admin/**/*.py",
    "tenants/templatetags/*.py",
    "quotas/services/requests/news.py",
)
TEMPLATES = (
    "config/templates/**/*.html",
    "*/templates/a*/**/*.html",
    "config/pages/theme.py",
)
CONSTANTS = (
    "billing.domain.documents.line_text.LINE_TEXTS",
    "billing.domain.ledger.status.PaymentStatus",
    "billing.domain.month_board.MonthStep",
    "metering.domain.catalogue.sizing.UnsizedCause",
    "metering.domain.corrections.exceptions.REMEDIES",
    "metering.domain.corrections.exceptions.UNKNOWN_RESOURCE_REMEDY",
    "metering.domain.corrections.exceptions.NOTHING_HELD",
    "metering.domain.corrections.exceptions.UNSIZED_SENTENCES",
    "metering.domain.collection.hour_decisions.EFFECTS",
    "metering.domain.devices.attribution.EVIDENCE_WORDS",
    "metering.domain.devices.attribution.NOTES",
    "metering.domain.devices.unbilled.CAUSE_WORDS",
    "metering.domain.devices.unbilled.NOTES",
    "quotas.domain.limits.input.GrantState",
    "quotas.domain.preemption.states.ProtectionState",
    "quotas.domain.requests.labels.DEEDS",
    "quotas.domain.requests.labels.GENERAL_PRICES",
)
"""Texts of the domain, which knows no Django; pages translate them as they show them."""
CALLS = ("gettext", "gettext_lazy", "gettext_noop", "ngettext")
TEXT = r"(?:\"([^\"]*)\"|'([^']*)')"
TRANSLATE = re.compile(rf"(?:translate|trans)\s+{TEXT}")
FILTERED = re.compile(rf"_\({TEXT}\)")
IN_PYTHON = re.compile(r'\{% translate "([^"]+)" %\}')
Text = str | tuple[str, str]


class Written(Catalog):
    """A catalogue whose header says nothing of its writing."""

    mime_headers = [
        ("Language", LANGUAGE),
        ("MIME-Version", "1.0"),
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Transfer-Encoding", "8bit"),
        ("Plural-Forms", "nplurals=2; plural=(n != 1);"),
    ]


def main(arguments: list[str]) -> int:
    """Write or check; print what is not translated, or not as written."""
    if arguments not in (["write"], ["check"]):
        sys.stderr.write(str(__doc__))
        return 2
    catalog = merged(texts())
    problems = [f"not translated: {message.id}" for message in catalog if not is_whole(message)]
    for name, content in files_of(catalog).items():
        if arguments == ["write"]:
            (FOLDER / name).write_bytes(content)
        elif (FOLDER / name).read_bytes() != content:
            problems.append(f"{name} is not as `make messages` writes it")
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return 1 if problems else 0


THEME_TEXTS = ("Select action", "Select action to run", "Select record")
"""What its lists say from Python."""


def texts() -> dict[Text, str]:
    """Return each text of the translated pages, and the first file that has it."""
    set_up()
    found: dict[Text, str] = dict.fromkeys(theme_texts(), "theme")
    found |= dict.fromkeys(texts_of_events(), "notification events")
    found |= dict.fromkeys(texts_of_sidebar(), "sidebar")
    found |= dict(labels_of_admin())
    for name in CONSTANTS:
        found |= dict.fromkeys(texts_of_constant(name), name.rpartition(".")[0])
    for patterns, texts_of in ((PYTHON, texts_of_python), (TEMPLATES, texts_of_template)):
        for path in (path for pattern in patterns for path in sorted(ROOT.glob(pattern))):
            for text in texts_of(path):
                found.setdefault(text, str(path.relative_to(ROOT)))
    return found


def set_up() -> None:
    """Load Django with the admin, whose labels come from names of tables and columns."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.test")
    import_module("django").setup()


def theme_texts() -> Iterator[str]:
    """Yield what the theme says, without what Django has German for."""
    folder = Path(str(import_module("unfold").__file__)).parent / "templates"
    known = [
        translation("django", Path(str(import_module(name).__file__)).parent / "locale", [LANGUAGE])
        for name in ("django.conf", "django.contrib.admin", "django.contrib.auth")
    ]
    found = (text for path in sorted(folder.rglob("*.html")) for text in texts_of_template(path))
    for text in chain(found, THEME_TEXTS):
        if isinstance(text, str) and all(one.gettext(text) == text for one in known):
            yield text


def texts_of_sidebar() -> Iterator[str]:
    """Yield the titles of the sidebar."""
    for group in import_module("config.settings.unfold").UNFOLD["SIDEBAR"]["navigation"]:
        yield from (group["title"], *(entry["title"] for entry in group["items"]))


def labels_of_admin() -> dict[str, str]:
    """Return the labels that the admin marked as it registered its tables."""
    marked: dict[str, str] = import_module("config.pages.labels").MARKED
    return marked


def texts_of_constant(name: str) -> Iterator[str]:
    """Yield the texts of a constant: of a text, a mapping's values, a sequence, or an enum."""
    module, _, attribute = name.rpartition(".")
    value = getattr(import_module(module), attribute)
    found = value.values() if isinstance(value, Mapping) else value
    yield from (
        [value]
        if isinstance(value, str)
        else (
            str(text).replace("_", " ") if isinstance(text, Enum) else str(text) for text in found
        )
    )


def texts_of_events() -> Iterator[str]:
    """Yield what the page of notifications says of each event."""
    events = import_module("tenants.domain.notification_events").NOTIFICATION_EVENTS
    for event in events.values():
        yield from (event.label, event.when.replace("`", ""))


def texts_of_python(path: Path) -> Iterator[Text]:
    """Yield the texts that a module translates; variables have texts of their own."""
    with path.open("rb") as source:
        for _, _, text, _ in extract_python(source, list(CALLS), [], {}):
            given = text if isinstance(text, tuple) else (text,)
            parts = tuple(part for part in given if part)
            if parts:
                yield parts if len(parts) > 1 else parts[0]


def texts_of_template(path: Path) -> Iterator[Text]:
    """Yield the texts that a template translates."""
    source = path.read_text()
    if path.suffix == ".py":
        yield from IN_PYTHON.findall(source)
        return
    tokens = iter(Lexer(source).tokenize())
    for token in tokens:
        if token.token_type is TokenType.TEXT:
            continue
        yield from (first or second for first, second in FILTERED.findall(token.contents))
        if found := TRANSLATE.match(token.contents):
            yield (found[1] or found[2]).replace("%", "%%")
        elif token.contents.startswith(("blocktranslate", "blocktrans ")):
            yield block_text(tokens, is_trimmed=" trimmed" in token.contents)


def block_text(tokens: Iterator[Token], *, is_trimmed: bool) -> Text:
    """Return the text up to the end of a block, with its plural where it has one."""
    parts = [""]
    for token in tokens:
        if token.contents.startswith("endblocktrans"):
            break
        if token.contents == "plural" and token.token_type is TokenType.BLOCK:
            parts.append("")
        elif token.token_type is TokenType.VAR:
            parts[-1] += f"%({token.contents})s"
        else:
            parts[-1] += token.contents.replace("%", "%%")
    parts = [trim_whitespace(part) for part in parts] if is_trimmed else parts
    return (parts[0], parts[1]) if len(parts) > 1 else parts[0]


def merged(found: dict[Text, str]) -> Catalog:
    """Return the catalogue of these texts with the translations that there are."""
    path = FOLDER / "django.po"
    known: Catalog = Catalog(locale=LANGUAGE)
    if path.exists():
        with path.open("rb") as source:
            known = read_po(source, locale=LANGUAGE)
    catalog = Written(locale=LANGUAGE, fuzzy=False)
    catalog.header_comment = "# The German of pages; `make messages` adds new texts."
    for text, name in sorted(found.items(), key=lambda one: (one[1], str(one[0]))):
        old = known.get(text[0] if isinstance(text, tuple) else text)
        string = old.string if old and (type(old.id) is type(text)) else ""
        catalog.add(text, string or ("", "") if isinstance(text, tuple) else string, [(name, 0)])
    return catalog


def is_whole(message: Message) -> bool:
    """Whether a text is translated, in each number."""
    strings = message.string if isinstance(message.string, (tuple, list)) else (message.string,)
    return not message.id or all(strings)


def files_of(catalog: Catalog) -> dict[str, bytes]:
    """Return both files of a catalogue; they say nothing of when they were written."""
    text, binary = io.BytesIO(), io.BytesIO()
    write_po(text, catalog, omit_header=False, width=100, include_lineno=False)
    write_mo(binary, catalog)
    return {"django.po": text.getvalue(), "django.mo": binary.getvalue()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What a German page still says in English."""

import gettext
import html
import re
from functools import cache
from typing import Any

from django.conf import settings

GERMAN = {"HTTP_ACCEPT_LANGUAGE": "de-DE,de;q=0.9,en;q=0.5"}
TEXT_LENGTH_MIN = 13
"""Of what is looked for inside a text: a shorter one may be a name, or a part of another word."""
HIDDEN = re.compile(
    r"<(script|style)\b.*?</\1>|<(\w+)\b[^>]*(?:\blang=\"en\"|material-symbols)[^>]*>.*?</\2>",
    re.DOTALL,
)
"""Scripts, what is marked as English, and icons, which are words in a font."""
TAG = re.compile("<[^>]*>")
NAMED = re.compile(r"(?:aria-label|placeholder|title)=\"([^\"]+)\"")


@cache
def catalogue() -> dict[str, str]:
    """Return the German of each English text without a plural."""
    path = settings.LOCALE_PATHS[0] / "de" / "LC_MESSAGES" / "django.mo"
    with path.open("rb") as file:
        known = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined] # noqa: SLF001 - All of it.
    return {key: text for key, text in known.items() if isinstance(key, str) and key}


def text_of(answer: Any) -> str:  # noqa: ANN401 - The answer of Django's test client.
    """Return what a page shows, without what it says is English."""
    shown = HIDDEN.sub(" ", answer.content.decode())
    return " ".join(html.unescape(TAG.sub(" ", shown)).split())


def english_in(text: str) -> list[str]:
    """Return the texts of the catalogue that stand in a page's text as they are in English."""
    return [
        key
        for key, german in catalogue().items()
        if len(key) >= TEXT_LENGTH_MIN
        and "%" not in key
        and "{" not in key
        and key != german
        and key in text
    ]


def english_parts(answer: Any) -> list[str]:  # noqa: ANN401 - As above.
    """Return the English texts, however short, that a page has between two tags or as a name."""
    shown = HIDDEN.sub(" ", answer.content.decode())
    parts = [*TAG.split(shown), *NAMED.findall(shown)]
    texts = {" ".join(html.unescape(part).split()).lower() for part in parts}
    known = catalogue()
    german = {text.lower() for text in known.values()}
    return sorted({key for key in known if key.lower() in texts and key.lower() not in german})

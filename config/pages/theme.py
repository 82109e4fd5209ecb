"""Templates of the admin's theme, mended where a keyboard or a screen reader needs more.

The theme's icons are words in a font, and some of its buttons are no buttons. Copies of its
templates would stay behind its releases, so their source is changed as it is read, and a test
says which change no longer applies.
"""

import re
from typing import Final

from django.template import Origin
from django.template.loaders import app_directories

ICON: Final = re.compile(
    r"<(span|div)(?=(?![^>]*(?:role=|aria-hidden))[^>]*class=\"[^\"]*material-symbols-outlined)"
)
"""One with a role is a button, with a name of its own."""
HIDDEN_ICON: Final = r'<\1 aria-hidden="true"'
SEARCHED: Final = '{% translate "Organizations, projects, people, invoices, pods, pages" %}'
KEYS: Final = (
    'role="button" tabindex="0" x-on:keydown.enter.prevent="$el.click()"'
    ' x-on:keydown.space.prevent="$el.click()"'
)
"""Of what the theme clicks and a keyboard does not reach."""
SKIP_LINK: Final = '<a class="skip-link" href="#main">{% translate "Skip to the content" %}</a>'
MAIN: Final = (
    ('<div id="main" class', '<main id="main" tabindex="-1" class'),
    (
        "{% block footer %}{% endblock %}\n        </div>",
        "{% block footer %}{% endblock %}\n        </main>",
    ),
)
CHANGES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "drf_spectacular/swagger_ui.html": (
        ("<html>", '{% load static %}<html lang="en">'),
        (
            '<link rel="stylesheet" href="{{ swagger_ui_css }}">',
            (
                '<link rel="stylesheet" href="{{ swagger_ui_css }}">'
                '<link rel="stylesheet" href="{% static "gpu_ledger/api.css" %}">'
            ),
        ),
        (
            '<div id="swagger-ui"></div>',
            (
                '<a class="skip-link" href="#operations">Skip to the content</a>'
                '<div id="swagger-ui"></div>'
                '<script src="{% static "gpu_ledger/api.js" %}"></script>'
            ),
        ),
    ),
    "unfold/layouts/skeleton.html": (
        ("{% block base %}{% endblock %}", SKIP_LINK + "{% block base %}{% endblock %}"),
    ),
    "unfold/layouts/base_simple.html": MAIN,
    "admin/base.html": MAIN,
    "unfold/layouts/unauthenticated.html": (
        (
            (
                '<div class="w-full sm:w-96">\n                {% block content %}{% endblock %}\n'
                "            </div>"
            ),
            (
                '<main id="main" tabindex="-1" class="w-full sm:w-96">'
                "{% block content %}{% endblock %}</main>"
            ),
        ),
    ),
    "unfold/helpers/welcomemsg.html": (
        (
            '<span class="material-symbols-outlined hidden! xl:block!"',
            (
                f'<span {KEYS} aria-label="{{% translate "Show or hide the menu" %}}"'
                ' class="material-symbols-outlined hidden! xl:block!"'
            ),
        ),
        (
            '<span class="material-symbols-outlined block! xl:hidden!"',
            (
                f'<span {KEYS} aria-label="{{% translate "Show the menu" %}}"'
                ' class="material-symbols-outlined block! xl:hidden!"'
            ),
        ),
    ),
    "unfold/helpers/navigation.html": (
        ("<nav id=", '<nav aria-label="{% translate "Menu" %}" id='),
    ),
    "unfold/helpers/navigation_header.html": (
        (
            '<span class="material-symbols-outlined block cursor-pointer',
            (
                f'<span {KEYS} aria-label="{{% translate "Close the menu" %}}"'
                ' class="material-symbols-outlined block cursor-pointer'
            ),
        ),
    ),
    "unfold/helpers/display_header.html": (
        ('<p class="text-base-500">', '<p class="text-base-500 dark:text-base-400">'),
    ),
    "unfold/helpers/tab_actions.html": (
        (
            "x-on:click='showActions = !showActions'",
            "aria-label='Actions' x-on:click.prevent='showActions = !showActions'",
        ),
    ),
    "unfold/helpers/app_list.html": (
        ("data-simplebar>", 'data-simplebar data-simplebar-aria-label="{% translate "Menu" %}">'),
    ),
    "unfold/components/chart/bar.html": (
        (
            '<canvas class="chart"',
            (
                '<canvas role="img" class="chart"'
                ' aria-label="{% translate "Chart: the table has its figures" %}"'
            ),
        ),
    ),
    "admin/change_list_results.html": (
        (
            'data-simplebar data-simplebar-auto-hide="false"',
            (
                'data-simplebar data-simplebar-auto-hide="false"'
                ' data-simplebar-aria-label="{% translate "List" %}"'
            ),
        ),
    ),
    "unfold/helpers/change_list_filter.html": (
        (
            "data-simplebar data-simplebar-direction",
            (
                'data-simplebar data-simplebar-aria-label="{% translate "Filters" %}"'
                " data-simplebar-direction"
            ),
        ),
    ),
    "unfold/helpers/navigation_user.html": (
        ("<nav class", '<nav aria-label="{% translate "Account" %}" class'),
        ('<div class="cursor-pointer', f'<div {KEYS} class="cursor-pointer'),
    ),
    "unfold/helpers/theme_switch.html": (
        ('<a class="cursor-pointer', f'<a {KEYS} class="cursor-pointer'),
    ),
    "unfold/helpers/theme_switch_dropdown.html": (
        ('<a class="cursor-pointer', f'<a {KEYS} class="cursor-pointer'),
        (
            '<a class="block cursor-pointer',
            f'<a {KEYS} aria-label="{{% translate "Colours" %}}" class="block cursor-pointer',
        ),
        ("<nav class", '<nav aria-label="{% translate "Colours" %}" class'),
    ),
    "unfold/helpers/language_form.html": (
        (
            '<button type="submit" class',
            '<button type="submit" lang="{{ language.code }}" class',
        ),
    ),
    "unfold/helpers/site_icon.html": (
        (
            'a href="{% url "admin:index" %}"{% endif %} class',
            'a href="{% url "admin:index" %}" aria-label="{% translate "Home" %}"{% endif %} class',
        ),
    ),
    "unfold/helpers/search.html": (
        ("{% trans 'Search apps and models...' %}", '{% translate "Search" %}'),
        ("{% trans 'Filter navigation items' %}", SEARCHED),
        (
            '<div id="search-results"',
            f'<p class="mt-1 px-1 text-xs">{SEARCHED}</p><div id="search-results"',
        ),
    ),
    "admin/search_form.html": (
        (
            'id="searchbar-submit"',
            'id="searchbar-submit" aria-label="{% translate "Search" %}"',
        ),
        ('x-ref="searchInput"', 'x-ref="searchInput" aria-label="{% translate "Search" %}"'),
    ),
    "admin/change_list.html": (
        ('<a class="{% if cl.has_active', f'<a {KEYS} class="{{% if cl.has_active'),
    ),
}
"""By template: what it says, and what it has to say."""


class Loader(app_directories.Loader):
    """Django's loader of the apps' templates, which changes those of the theme."""

    def get_contents(self, origin: Origin) -> str:
        """Return the source of a template, as mended."""
        return mend(str(origin.template_name), super().get_contents(origin))


def mend(name: str, source: str) -> str:
    """Return the source of a template with its icons hidden and the changes of its name."""
    for found, wanted in CHANGES.get(name, ()):
        source = source.replace(found, wanted)
    if name in CHANGES and not source.startswith("{% extends"):
        source = "{% load i18n %}" + source
    return ICON.sub(HIDDEN_ICON, source)

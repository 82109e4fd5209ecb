"""The reason beside a button, on pages of every app: no decision goes without one."""

from django import forms
from django.http import HttpRequest
from django.utils.translation import gettext_lazy
from unfold.forms import ActionForm
from unfold.widgets import UnfoldAdminTextInputWidget

NOTE_LENGTH_MAX = 2_000


class NoteActionForm(ActionForm):
    """The choice of a button, and the reason for pressing it."""

    note = forms.CharField(
        label="",
        required=False,
        max_length=NOTE_LENGTH_MAX,
        widget=forms.TextInput(
            {
                "placeholder": gettext_lazy("Reason"),
                "aria-label": gettext_lazy("Reason"),
                "x-show": "action",
                "class": "rounded-default px-3 py-1 text-base-700 lg:w-72",
            }
        ),
    )


class NoteForm(forms.Form):
    """The reason for one decision, on a page of its own."""

    note = forms.CharField(
        label=gettext_lazy("Reason"), max_length=NOTE_LENGTH_MAX, widget=UnfoldAdminTextInputWidget
    )


def note_of(request: HttpRequest) -> str:
    """Return the reason that was typed; services refuse an empty one where it is needed."""
    return request.POST.get("note", "")[:NOTE_LENGTH_MAX]

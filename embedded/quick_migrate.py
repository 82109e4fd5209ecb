"""Django's `migrate` for an empty database of tests and benches, in two fifths of its time.

Between operations Django makes the classes of a changed table and of all tables around it anew,
which is nine tenths of a whole `migrate`. A further constraint or index needs no class anew, and a
new table only its own. A deployment migrates as Django does; tests/upgrade compares the two.
"""

import sys
from typing import TYPE_CHECKING, Any

from django.core.management import execute_from_command_line
from django.db.migrations.state import ProjectState

if TYPE_CHECKING:
    from django.db.migrations.state import ModelState
    from django.db.models import BaseConstraint, Index


def add_model(self: ProjectState, model_state: "ModelState") -> None:
    """Add a table and make its class, beside those that there are."""
    key = model_state.app_label, model_state.name_lower
    self.models[key] = model_state
    if self._relations is not None:  # type: ignore[attr-defined]
        self.resolve_model_relations(key)
    if _is_rendered(self):
        self.apps.render_multiple([model_state])


def append_option(
    self: ProjectState,
    app_label: str,
    model_name: str,
    option_name: str,
    obj: "BaseConstraint | Index",
) -> None:
    """Add a constraint or an index to a table."""
    objects = self.models[app_label, model_name].options[option_name]
    _set_option(self, app_label, model_name, option_name, [*objects, obj])


def remove_option(
    self: ProjectState, app_label: str, model_name: str, option_name: str, obj_name: str
) -> None:
    """Remove a constraint or an index from a table."""
    objects = self.models[app_label, model_name].options[option_name]
    kept = [one for one in objects if one.name != obj_name]
    _set_option(self, app_label, model_name, option_name, kept)


def _set_option(
    state: ProjectState, app_label: str, model_name: str, option_name: str, objects: list[Any]
) -> None:
    state.models[app_label, model_name].options[option_name] = objects
    if _is_rendered(state):
        setattr(state.apps.get_model(app_label, model_name)._meta, option_name, objects)  # noqa: SLF001 - What a class made anew would have.


def _is_rendered(state: ProjectState) -> bool:
    """Whether classes were made; to ask for `apps` would make them."""
    return "apps" in vars(state)


if __name__ == "__main__":
    ProjectState.add_model = add_model  # type: ignore[method-assign]
    ProjectState._append_option = append_option  # type: ignore[attr-defined]  # noqa: SLF001
    ProjectState._remove_option = remove_option  # type: ignore[attr-defined]  # noqa: SLF001
    execute_from_command_line([sys.argv[0], "migrate", *sys.argv[1:]])

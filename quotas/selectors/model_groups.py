"""Refusing model groups that nobody knows: a limit of one would bind nothing."""

from metering.selectors.model_groups import unknown_model_group
from tenants.domain.errors import FieldProblem


def unknown_group_problems(
    model_group: str, *, field: str = "model_group"
) -> tuple[FieldProblem, ...]:
    """Return the problem of a model group that neither the catalogue nor any node or pod has."""
    known = unknown_model_group(model_group)
    if known is None:
        return ()
    message = (
        f'No GPU model is called {model_group}. Use one of: {", ".join(known)}; or "" for every '
        "model. A model of which no node has come yet is known once a rule of the size catalogue "
        "names its product."
    )
    return (FieldProblem(field, "model_group_unknown", message),)

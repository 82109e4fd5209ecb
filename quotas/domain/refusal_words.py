"""Refusals as they are read back later, by whoever may read them, and as far as they may.

Whoever is refused is told every number at once, so as to know what to ask for. The row that counts
the refusal is read all day by everybody in the project, so it keeps to what they may read.
"""

from collections.abc import Collection, Mapping
from typing import Final

from quotas.domain.admission import VerdictCode

WITHOUT_FIGURES: Final[Mapping[str, str]] = {
    VerdictCode.LIMIT_REACHED.value: "has no room left for as many",
    VerdictCode.NOTHING_GRANTED.value: "grants none of this size",
    VerdictCode.ALLOWANCE_USED.value: "has used its unit-hours of this month",
}
"""What refusals by a limit say without their numbers; all others tell none."""
SCOPES: Final = frozenset({"organization", "project", "user"})


def visible_refusal(message: str, *, code: str, hidden_scopes: Collection[str]) -> str:
    """Return what a refusal says to somebody who may not read the limits of some scopes.

    Args:
        message: As it was written down: of a limit, "<scope> <holder>: " and the numbers.
        code: The verdict's.
        hidden_scopes: Scopes of limits whose figures the reader may not read.
    """
    words = WITHOUT_FIGURES.get(code)
    if words is None or not message or not hidden_scopes:
        return message
    whose = message.partition(":")[0]
    scope = whose.partition(" ")[0]
    if scope not in SCOPES:
        return f"a limit {words}."
    return f"{whose} {words}." if scope in hidden_scopes else message

"""Aggregates over a range as Prometheus 2 and 3 calculate them, for the queries about devices."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

Row = dict[str, Any]
Vector = list[tuple[dict[str, str], float]]
_ROW: Final = re.compile(
    r'label_replace\((\w+) by \(([^)]*)\) \((.*?)\),"answer","([^"]*)","",""\)'
)
_TERM: Final = re.compile(
    r'(?:(\d+) \* )?(\w+)\(\{__name__=~"([^"]*)"[^}]*\}\[(\d+)ms\] offset (\d+)ms\)'
)
_GROUPED: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {"sum": sum, "max": max}
_FUNCTIONS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "count_over_time": len,
    "sum_over_time": sum,
    "min_over_time": min,
    "max_over_time": max,
    "last_over_time": lambda values: values[-1],
    "resets": lambda values: sum(later < one for one, later in pairwise(values)),
}


def is_aggregating(query: str) -> bool:
    """Whether a query is one of aggregates of devices."""
    return "ms] offset " in query


def aggregate(query: str, at: int, rows: Sequence[Row], *, is_closed: bool) -> list[Row]:
    """Return the answer to a query of aggregates.

    Args:
        query: Any of `Aggregates`.
        at: When it is evaluated, in seconds.
        rows: Series with their raw samples.
        is_closed: Whether a range includes its left edge, as in Prometheus 2.
    """
    found = []
    for function, by, expression, answer in _ROW.findall(query):
        grouped: dict[tuple[tuple[str, str], ...], list[float]] = {}
        for labels, value in _evaluate(expression, at * 1000, rows, is_closed=is_closed):
            kept = tuple((name, labels[name]) for name in by.split(",") if name in labels)
            grouped.setdefault(kept, []).append(value)
        found += [
            {"metric": {**dict(kept), "answer": answer}, "value": [at, repr(value)]}
            for kept, values in grouped.items()
            for value in (_GROUPED[function](values),)
        ]
    return found


def _evaluate(expression: str, at: int, rows: Sequence[Row], *, is_closed: bool) -> Vector:
    found: Vector = []
    for part in expression.split(" or "):
        sums: dict[tuple[tuple[str, str], ...], float] = {}
        for factor, *term in _TERM.findall(part):
            for labels, value in _over(term, at, rows, is_closed=is_closed):
                known_as = tuple(sorted(labels.items()))
                sums[known_as] = sums.get(known_as, 0) + int(factor or 1) * value
        least = float(part.rpartition(" > ")[2]) if " > " in part else -math.inf
        found += [(dict(labels), value) for labels, value in sums.items() if value > least]
    return found


def _over(
    term: Sequence[str], at: int, rows: Sequence[Row], *, is_closed: bool
) -> Iterator[tuple[dict[str, str], float]]:
    function, metrics, lasting, offset = term
    end = at - int(offset)
    begin = end - int(lasting)
    for row in rows:
        labels = {name: text for name, text in row["metric"].items() if name != "__name__"}
        values = [
            _number(value)
            for time, value in row["values"]
            if begin + (not is_closed) <= round(time * 1000) <= end
        ]
        if values and row["metric"]["__name__"] in metrics.split("|"):
            yield labels, _FUNCTIONS[function](values)


def _number(text: object) -> float:
    try:
        return float(str(text))
    except ValueError:
        return math.nan

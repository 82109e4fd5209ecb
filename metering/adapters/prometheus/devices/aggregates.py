"""Prometheus' own aggregates of devices: the queries, and the numbers their answers carry."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.devices.columns import SCALES
from metering.adapters.prometheus.nodes import Hours
from metering.adapters.prometheus.queries import ANSWER_LABEL, QueryPlan, label_names
from metering.adapters.prometheus.samples import read_float

UNSTEADY: Final = "unsteady"
"""Answers with the devices that need raw samples, whatever the value."""
IDLE: Final = "idle"
EARLY: Final[Mapping[str, str]] = {
    metric: f"{metric} early"
    for metric in (known.MEMORY_USED, known.MEMORY_FREE, known.MEMORY_RESERVED)
}
"""Answers with a memory at the last scrape of the window's first scrape interval."""
BUSY: Final = (known.BUSY_PERCENT, known.BUSY_RATIO)
MEANS: Final = (known.SM_ACTIVE, known.TENSOR_ACTIVE, known.DRAM_ACTIVE, known.POWER)


class _Carried(NamedTuple):
    """How a value of an answer is read.

    Attributes:
        sample: What each sample adds to the value, so that one row carries how many there are
            beside their amount; 0 where they are not counted. It is more than 3,600 samples of the
            largest value add up to, and so little that a float keeps six decimals of a ratio and
            three of a power.
        factor: The scale of the amount.
    """

    sample: int
    factor: int


_CARRIED: Final[Mapping[str, _Carried]] = {
    known.ENERGY: _Carried(1, 1),
    known.BUSY_PERCENT: _Carried(10**6, SCALES[known.BUSY_PERCENT].factor),
    **{
        metric: _Carried(10**4, SCALES[metric].factor) for metric in (known.BUSY_RATIO, *MEANS[:-1])
    },
    known.POWER: _Carried(10**8, SCALES[known.POWER].factor),
    known.MEMORY_USED: _Carried(10**8, 1),
    **{early: _Carried(0, 1) for early in EARLY.values()},
    IDLE: _Carried(0, SCALES[known.POWER].factor),
}
ANSWERS: Final = _CARRIED.keys()
"""Answers with an amount."""
_DEVICE: Final = ("uuid", "instance_id", "instance_profile")
_WORKLOAD: Final = ("namespace", "pod", "share")
_OWN: Final = ("container", "pod", "exported_pod")
"""Labels by their plain names that show whether a pod is the exporter's own."""


class Amount(NamedTuple):
    """What one row carries: how many samples, and their sum, peak or least as a whole number."""

    samples: int
    amount: int


def read_amount(answer: str, text: str) -> Amount | None:
    """Return the numbers of a row; None where a sample was no number or below 0.

    Prometheus calculates in floats and spells each so that it is read back unchanged.

    Raises:
        SourceUnavailableError: `bad_sample` for a text that is no number.
    """
    value = read_float(text)
    if not 0 <= value < inf:
        return None
    sample, factor = _CARRIED[answer]
    if sample:
        samples, value = divmod(value, sample)
        return Amount(int(samples), round(value * factor))
    return Amount(0, int(value * factor))


@dataclass(frozen=True)
class Aggregates:
    """The queries of one part of a cluster's devices about one window.

    Prometheus 2 includes both edges of a range, Prometheus 3 only the right one. All ranges end a
    millisecond before the window does, so that both include [start, end); what Prometheus 2
    includes beyond is a sample one millisecond before the start.
    """

    plan: QueryPlan
    part: str
    hours: Hours

    def presence(self) -> str:
        """Return the query for how often devices were seen and how busy, by workload too."""
        by = label_names(self.plan.names, *_DEVICE, *_WORKLOAD, plain=_OWN)
        counted = self._over("count_over_time", known.ENERGY)
        fell = f"{self._over('resets', known.ENERGY)} > 0"
        return _either(
            # Others add up all series: the numbers agree only where there is one.
            self._row(known.ENERGY, counted, by=by, function="max"),
            *(self._row(metric, self._counted("sum_over_time", metric), by=by) for metric in BUSY),
            self._row(UNSTEADY, " or ".join((fell, *map(self._impossible, BUSY)))),
        )

    def means(self) -> str:
        """Return the query for what is averaged."""
        return _either(
            *(self._row(metric, self._counted("sum_over_time", metric)) for metric in MEANS),
            self._row(UNSTEADY, " or ".join(map(self._impossible, MEANS))),
        )

    def extremes(self) -> str:
        """Return the query for the lowest power, and memory: its peak, and parts of its total."""
        late = self.hours.end - self.hours.start - self.hours.scrape
        return _either(
            self._row(IDLE, self._over("min_over_time", known.POWER)),
            self._row(known.MEMORY_USED, self._counted("max_over_time", known.MEMORY_USED)),
            *(
                self._row(
                    answer,
                    self._over("last_over_time", metric, self.hours.scrape, earlier=late),
                    function="max",
                )
                for metric, answer in EARLY.items()
            ),
        )

    def _row(self, answer: str, expression: str, *, by: str = "", function: str = "sum") -> str:
        by = by or label_names(self.plan.names, *_DEVICE)
        rows = f"{function} by ({by}) ({expression})"
        return f'label_replace({rows},"{ANSWER_LABEL}","{answer}","","")'

    def _counted(self, function: str, metric: str) -> str:
        counted = f"{_CARRIED[metric].sample:d} * {self._over('count_over_time', metric)}"
        return f"{self._over(function, metric)} + {counted}"

    def _impossible(self, metric: str) -> str:
        """Return the series of which some sample is more than can be."""
        return f"{self._over('max_over_time', metric)} > {SCALES[metric].value_max:d}"

    def _over(self, function: str, metric: str, lasting: int = 0, *, earlier: int = 0) -> str:
        """Return a function over the window, or so many milliseconds of it."""
        lasting = lasting or self.hours.end - self.hours.start
        selected = self.plan.selected(metric, self.part)
        return f"{function}({selected}[{lasting:d}ms] offset {earlier + 1:d}ms)"


def _either(*rows: str) -> str:
    """Return all rows; in halves, because each `or` reads its left side once more."""
    if len(rows) == 1:
        return rows[0]
    half = len(rows) // 2
    return f"({_either(*rows[:half])} or {_either(*rows[half:])})"

"""GPUs with an hour of samples, whole or with something wrong, as OpenMetrics for a Prometheus."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random

from hypothesis import strategies as st

from metering.adapters.prometheus import names as known
from simulator.cluster.exporters.prometheus_text import render_labels

START = int(datetime(2026, 10, 1, 10, tzinfo=UTC).timestamp()) * 1000
END = START + 3_600_000
SCRAPE = 30
MARGIN = 150_000
"""How far around the hour there are samples, in milliseconds."""
EXPORTER = {
    "job": "dcgm",
    "namespace": "gpu-operator",
    "pod": "exporter-1",
    "container": "exporter",
}
UP = "up"
RATIOS = (known.BUSY_RATIO, known.SM_ACTIVE, known.TENSOR_ACTIVE, known.DRAM_ACTIVE)
METRICS = (*known.PRESENCE, *known.FIGURES)
TWISTS = (
    *("gap", "moved", "visited", "twin", "reset", "jump", "restart", "still", "unexplained"),
    *(f"pause {metric}" for metric in METRICS),
    *(f"without {metric}" for metric in METRICS),
    *(f"huge {metric}" for metric in METRICS),
    # One of the others counts as a sample, and changes nothing else.
    *(f"nan {metric}" for metric in METRICS if metric not in (known.ENERGY, known.MEMORY_USED)),
)
"""What may be wrong with a GPU for some time."""


@dataclass(frozen=True)
class Twist:
    """Something wrong from one moment until another, in milliseconds since the epoch."""

    kind: str
    begin: int
    end: int

    @property
    def about(self) -> tuple[str, str]:
        """Return the kind and the metric it is about."""
        kind, _, metric = self.kind.partition(" ")
        return kind, metric


@dataclass(frozen=True)
class Case:
    """One GPU.

    Attributes:
        seed: Of its values.
        step: Milliseconds between its scrapes.
        phase: When the first one is after the beginning of a step, in milliseconds.
        instances: How many MIG instances it has; 0 when it is not partitioned.
        owner: "pod", "idle", or "own" where an idle one has the labels of the exporter's pod.
    """

    seed: int
    step: int = SCRAPE * 1000
    phase: int = 7_347
    instances: int = 0
    owner: str = "pod"
    twists: tuple[Twist, ...] = ()

    def active(self, at: int) -> Iterator[tuple[str, str]]:
        """Yield what is wrong at a moment."""
        return (one.about for one in self.twists if one.begin <= at < one.end)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return any GPU; half of them have something wrong."""
    step = draw(st.sampled_from((15_000, 30_000, 30_000, 60_000)))
    edges = st.sampled_from((0, 1, step - 1, step // 2))
    moments = st.integers(START - MARGIN, END + MARGIN)
    twists = st.builds(
        lambda kind, one, other: Twist(kind, min(one, other), max(one, other)),
        st.sampled_from(TWISTS),
        moments,
        moments,
    )
    return Case(
        seed=draw(st.integers(0, 10**6)),
        step=step,
        phase=draw(st.one_of(st.integers(0, step - 1), edges)),
        instances=draw(st.sampled_from((0, 0, 1, 2, 3))),
        owner=draw(st.sampled_from(("pod", "pod", "idle", "own"))),
        twists=tuple(draw(st.one_of(st.just([]), st.lists(twists, min_size=1, max_size=2)))),
    )


def openmetrics(found: Sequence[Case]) -> str:
    """Return the samples of all GPUs, family by family, as Prometheus imports them."""
    samples: dict[str, dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    up = render_labels(tuple((EXPORTER | {"instance": "node-1:9400"}).items()))
    samples[UP][up] = [(at, "1") for at in range(START - MARGIN, END + MARGIN, SCRAPE * 1000)]
    for number, case in enumerate(found):
        for metric, labels, at, value in _samples(number, case):
            samples[metric][render_labels(tuple(labels.items()))].append((at, value))
    lines = []
    for family, series in samples.items():
        lines.append(f"# TYPE {family} unknown")
        for rendered, values in series.items():
            lines += [
                f"{family}{{{rendered}}} {value} {at // 1000}.{at % 1000:03d}"
                for at, value in sorted(dict(values).items())
            ]
    return "\n".join((*lines, "# EOF", ""))


def _samples(number: int, case: Case) -> Iterator[tuple[str, dict[str, str], int, str]]:
    """Yield metric, labels, time and value of every sample of one GPU."""
    chance = Random(case.seed)  # noqa: S311 - No secret.
    counter, before = 10**11 + number, None
    base = (START - MARGIN) // case.step * case.step + case.phase
    for at in range(base, END + MARGIN, case.step):
        wrong = set(case.active(at))
        kinds = {kind for kind, _ in wrong}
        watts = Random(case.seed + at).choice((90, 380, 411, 700))  # noqa: S311
        started = before is None or not any(
            one.begin <= at and one.begin > before for one in case.twists if one.kind == "reset"
        )
        taken = watts * (at - (before or at)) * (3 if "unexplained" in kinds else 2) // 2
        counter = (counter if started else 0) + taken
        if any(one.kind == "jump" and (before or at) < one.begin <= at for one in case.twists):
            counter += 10**9
        before = at
        if "gap" in kinds:
            continue
        for instance in range(1, case.instances + 1) if case.instances else (0,):
            values = _values(chance, watts, counter, is_still="still" in kinds)
            for metric, value in values.items():
                if ("pause", metric) in wrong or any(
                    one.about == ("without", metric) for one in case.twists
                ):
                    continue
                spoiled = "9e+17" if ("huge", metric) in wrong else value
                shown = "NaN" if ("nan", metric) in wrong else spoiled
                labels = _labels(number, case, instance, kinds)
                yield metric, labels, at, shown
                if "twin" in kinds:
                    yield metric, labels | {"instance": "twin:9400"}, at + 4_000, shown


def _values(chance: Random, watts: int, counter: int, *, is_still: bool) -> Mapping[str, str]:
    used = chance.randrange(80_000)
    ratios = {
        metric: "0" if is_still else f"{chance.choice((0, 1, chance.random())):.6f}"
        for metric in RATIOS
    }
    return {
        **ratios,
        known.BUSY_PERCENT: str(0 if is_still else chance.randrange(101)),
        known.ENERGY: str(counter),
        known.POWER: f"{watts}.317000",
        known.SM_CLOCK: str(chance.choice((345, 1_980))),
        known.MEMORY_USED: str(used),
        known.MEMORY_FREE: str(80_940 - used),
        known.MEMORY_RESERVED: "619",
    }


def _labels(number: int, case: Case, instance: int, kinds: set[str]) -> dict[str, str]:
    uuid = f"GPU-{number:08d}-9c55-7f20-8b1a-2d6e0f91c384"
    place = "node-9:9400" if "restart" in kinds else "node-1:9400"
    labels = EXPORTER | {"instance": place, "UUID": uuid, "hostname": "node-1", "modelName": "H100"}
    if instance:
        labels |= {"GPU_I_ID": str(instance), "GPU_I_PROFILE": "1g.10gb"}
    pod = {"moved": "other", "visited": "visitor"}.get(
        next((kind for kind in sorted(kinds) if kind in {"moved", "visited"}), ""), ""
    )
    if case.owner == "pod" or pod:
        labels |= {"exported_namespace": "team", "exported_pod": pod or f"pod-{number}"}
    elif case.owner == "idle":
        del labels["pod"], labels["namespace"]
    return labels

"""The queries, each a fixed template; docs/reference/metering-queries.md says why each is so.

Only four things are filled in: checked metric names, the checked selector of a shared Prometheus,
patterns out of the settings, and whole seconds. Names of namespaces, pods, nodes and users never
reach a query: what belongs together is joined here, by label, in our own code.
"""

import re
from dataclasses import dataclass
from typing import Final

from metering.adapters.prometheus import names as known
from metering.adapters.prometheus.names import Names
from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

GPU_RESOURCES: Final = "nvidia_com_(gpu|mig_).*"
"""Sanitised names of whole, shared, renamed and MIG resources of the NVIDIA device plugin."""
COVERAGE_JOBS: Final = ".*kube-state-metrics.*"
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}", re.ASCII)
_VALUE: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9 ._:/@-]{0,127}", re.ASCII)


@dataclass(frozen=True)
class QueryPlan:
    """What is fixed for one cluster: names, the selector, and the patterns of the settings.

    Attributes:
        selector: Further matchers, each led by a comma; "" for a Prometheus of the cluster's own.
        resources: Pattern of sanitised resource names that are GPUs.
        jobs: Pattern of the scrape jobs of kube-state-metrics.
    """

    names: Names
    selector: str
    resources: str
    jobs: str

    def sights(self, range_seconds: int) -> str:
        """Return the raw samples that say when pods, nodes and their exporter were seen."""
        matchers = ",".join(
            (
                _named(
                    self.names,
                    known.REQUESTS,
                    known.INIT_REQUESTS,
                    known.ALLOCATABLE,
                    known.UP,
                ),
                f"resource=~{quoted('|' + self.resources)}",
                f"job=~{quoted(self.jobs)}",
            )
        )
        return f"{{{matchers}{self.selector}}}[{range_seconds:d}s]"

    def facts(self, range_seconds: int) -> str:
        """Return the last value of everything that does not change while a pod lives.

        Pods are narrowed to those that ask for a GPU, phases to the one a pod ended in, node
        labels to nodes that offer one, and `up` to the targets that DCGM's metrics come from.
        """
        asked = _last(
            _named(self.names, known.REQUESTS, known.INIT_REQUESTS),
            f"resource=~{quoted(self.resources)}{self.selector}",
            range_seconds,
        )
        pods = _last(
            _named(
                self.names,
                known.POD_INFO,
                known.POD_LABELS,
                known.SCHEDULED,
                known.COMPLETED,
                known.INIT_INFO,
            ),
            f'restart_policy=~"|Always"{self.selector}',
            range_seconds,
        )
        ended = _last(
            _named(self.names, known.POD_PHASE),
            f'phase=~"Succeeded|Failed"{self.selector}',
            range_seconds,
        )
        offered = _last(
            _named(self.names, known.ALLOCATABLE),
            f"resource=~{quoted(self.resources)}{self.selector}",
            range_seconds,
        )
        nodes = _last(_named(self.names, known.NODE_LABELS), self.selector[1:], range_seconds)
        measured = _last(
            _named(self.names, known.BUSY_PERCENT, known.BUSY_RATIO),
            self.selector[1:],
            range_seconds,
        )
        exporters = _last(_named(self.names, known.UP), f'pod!=""{self.selector}', range_seconds)
        return (
            f"(({pods} or ({ended} == 1)) and on (uid) {asked})"
            f" or ({nodes} and on (node) {offered})"
            f" or ({exporters} and on (job,instance) {measured})"
        )

    def devices(self, metrics: tuple[str, ...], range_seconds: int) -> str:
        """Return the raw samples of what devices showed.

        Args:
            metrics: PRESENCE or FIGURES, in our spelling.
            range_seconds: How far to look back.
        """
        return f"{{{_named(self.names, *metrics)}{self.selector}}}[{range_seconds:d}s]"

    def details(self, metrics: tuple[str, ...], range_seconds: int) -> str:
        """Return the raw samples of facts that did change, or that no timestamp tells.

        Args:
            metrics: Some of POD_PHASE, POD_LABELS and NODE_LABELS, in our spelling.
            range_seconds: How far to look back.
        """
        matcher = _named(self.names, *metrics)
        return f'{{{matcher},phase=~"|Succeeded|Failed"{self.selector}}}[{range_seconds:d}s]'


def plan_queries(target: ClusterTarget, names: Names, *, resources: str, jobs: str) -> QueryPlan:
    """Return the queries of one cluster.

    Raises:
        SourceUnavailableError: `bad_target` when the selector cannot be put into a query.
    """
    return QueryPlan(names=names, selector=_selector(target), resources=resources, jobs=jobs)


def quoted(text: str) -> str:
    r"""Return a PromQL string literal, by Go's rules: `\` and `"` escaped, no control characters.

    Raises:
        ValueError: The text holds a control character.
    """
    if not text.isprintable():
        raise ValueError("A control character has no place in a query.")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _named(names: Names, *metrics: str) -> str:
    return f"__name__=~{quoted('|'.join(names.spelled(*metrics)))}"


def _last(named: str, matchers: str, range_seconds: int) -> str:
    inside = f"{named},{matchers}" if matchers else named
    return f"last_over_time({{{inside}}}[{range_seconds:d}s])"


def _selector(target: ClusterTarget) -> str:
    """Return `,label="value"` for a shared Prometheus; half a selector would meter everybody's."""
    label, value = target.selector_label, target.selector_value
    if not label and not value:
        return ""
    if _LABEL.fullmatch(label) is None or label.startswith("__"):
        raise SourceUnavailableError("The selector's label is no label name.", reason="bad_target")
    if _VALUE.fullmatch(value) is None:
        raise SourceUnavailableError(
            "The selector's value may hold letters, digits, spaces and . _ : / @ - only.",
            reason="bad_target",
        )
    return f",{label}={quoted(value)}"

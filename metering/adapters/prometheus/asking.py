"""Queries of one observation, divided where they are refused, and the credentials they use.

A server that would have to load more samples than `--query.max-samples` refuses with 422. The same
query over each half of its time loads half of them, and no reader minds a series in two pieces. All
queries of an observation share one budget of time, so that a slow server is a failed attempt.
"""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from metering.adapters.prometheus.body import QueryResponse
from metering.adapters.prometheus.names import Names
from metering.adapters.prometheus.samples import (
    Fact,
    Range,
    Series,
    read_rows,
    read_vector,
    stream_matrix,
    to_time,
)
from metering.adapters.prometheus.session import Conversation
from metering.protocols import ClusterTarget, Evidence
from tenants.adapters.cluster_secrets import (
    SecretForbiddenError,
    named_secrets,
    read_secret,
    require_pinned_origin,
    require_plain_secret,
    secret_path,
    secret_variable,
)
from tenants.domain.clusters import split_reference
from tenants.domain.errors import SourceUnavailableError

SLICE_SECONDS_MIN: Final = 120
"""A query over less time than this is not divided further: 32 slices of an hour by then, so that
`--query.max-samples` would have to be below one thirtieth of its default for what one query of
ours needs."""
DIVISIBLE: Final = frozenset({"query_refused", "query_timeout"})
"""Reasons for which the same query over a shorter range may succeed."""
Template = Callable[[int], str]
"""From the length of a range in seconds to the query."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """How many series one response had.

    Attributes:
        name: Which response it was; "" where series are not counted.
        series: All of them.
        inside: Those with a sample after the left edge. VictoriaMetrics shows others in a raw range
            and leaves them out of a function over one.
    """

    name: str
    query: str
    within: Range
    series: int
    inside: int


@dataclass(frozen=True)
class Asking:
    """A conversation about one window, in one cluster's spelling."""

    conversation: Conversation
    names: Names
    give_up_at: float = math.inf
    """When the time for all queries is used up, by the monotonic clock."""
    evidence: list[Evidence] = field(default_factory=list)
    arrived: list[Arrived] = field(default_factory=list)

    def matrix(self, template: Template, within: Range, *, name: str = "") -> Iterator[Series]:
        """Yield the series of a range; those of a divided one come in pieces, oldest first.

        Args:
            template: The query.
            within: What it covers.
            name: What its series are counted as; see `completeness`.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        for answer, part in self._divided(template, within):
            samples = series = 0
            for one in stream_matrix(answer, self.names, part):
                samples += len(one.times)
                series += 1
                yield one
            self.note(template(part.seconds), part, answer, samples)
            self._arrive(name, template, part, answer, inside=series)

    def vector(self, template: Template, within: Range, *, name: str = "") -> Iterator[Fact]:
        """Yield the last values in a range; of a divided one, the last of each part.

        Args:
            template: The query.
            within: What it covers.
            name: What its rows are counted as; see `completeness`.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        for answer, part in self._divided(template, within):
            rows = 0
            for one in read_vector(answer, self.names):
                rows += 1
                yield one
            self.note(template(part.seconds), part, answer, rows)
            self._arrive(name, template, part, answer, inside=rows)

    def rows(self, query: str, within: Range) -> Iterator[tuple[dict[str, str], str]]:
        """Yield labels and value of each row of a query that is not divided.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        answer = self.ask(query, within)
        for labels, value in read_rows(answer):
            yield dict(labels), value
        self.note(query, within, answer, answer.row_count)

    def steps(self, query: str, steps: range) -> Iterator[tuple[QueryResponse, range]]:
        """Yield the responses to one query at several times or, while that is refused, at fewer.

        Args:
            query: What is evaluated at each time; no raw range.
            steps: The times, Unix seconds.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        try:
            answer = self.conversation.ask_steps(query, steps, give_up_at=self.give_up_at)
        except SourceUnavailableError as error:
            if error.reason not in DIVISIBLE or len(steps) == 1:
                raise
        else:
            yield answer, steps
            return
        middle = len(steps) // 2
        yield from self.steps(query, steps[:middle])
        yield from self.steps(query, steps[middle:])

    def _divided(self, template: Template, within: Range) -> Iterator[tuple[QueryResponse, Range]]:
        """Yield the responses over the whole range or, while that is refused, over its halves."""
        try:
            answer = self.ask(template(within.seconds), within)
        except SourceUnavailableError as error:
            if error.reason not in DIVISIBLE or within.seconds < 2 * SLICE_SECONDS_MIN:
                raise
        else:
            yield answer, within
            return
        middle = within.first_seconds + within.seconds // 2
        yield from self._divided(template, Range(within.first_seconds, middle))
        yield from self._divided(template, Range(middle, within.asked_seconds))

    def ask(self, query: str, within: Range) -> QueryResponse:
        """Return the response to one query at the end of a range, while there is time left.

        Raises:
            SourceUnavailableError: No response, or an invalid one.
        """
        return self.conversation.ask(
            query, at_seconds=within.asked_seconds, give_up_at=self.give_up_at
        )

    def note(self, query: str, within: Range, answer: QueryResponse, samples: int) -> None:
        """Keep the evidence of a response that was read to its end."""
        at = to_time(within.asked_seconds * 1000)
        self.evidence.append(Evidence(query=query, at=at, sha256=answer.sha256, samples=samples))

    def note_steps(self, query: str, steps: range, answer: QueryResponse, samples: int) -> None:
        """Keep the evidence of a response about several times, likewise."""
        first, last = (to_time(at * 1000) for at in (steps[0], steps[-1]))
        self.evidence.append(
            Evidence(query, last, answer.sha256, samples, from_at=first, step_seconds=steps.step)
        )

    def _arrive(
        self, name: str, template: Template, within: Range, answer: QueryResponse, *, inside: int
    ) -> None:
        if name:
            query = template(within.seconds)
            self.arrived.append(Arrived(name, query, within, answer.row_count, inside))


SCOPE_HEADER: Final = "X-Scope-OrgID"
"""Names the tenant to Mimir, Cortex and Thanos receivers."""
BASIC: Final = "basic-"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_SCOPE: Final = re.compile(r"[A-Za-z0-9!_.*'()|-]{1,256}", re.ASCII)
"""Source: Grafana Mimir, "About tenant IDs"; `|` joins several."""


def request_headers(target: ClusterTarget) -> dict[str, str]:
    """Return the headers with the credentials and the tenant.

    Raises:
        SourceUnavailableError: `credentials_missing` when the reference is of no known kind or its
            target does not exist, `credentials_forbidden` when it must not be sent to this URL or
            is not a plain secret, `bad_target` when the tenant cannot stand in a header.
    """
    headers = {}
    if target.prometheus_credential_reference:
        headers["Authorization"] = _authorization(
            target.prometheus_credential_reference, url=target.prometheus_url
        )
    if target.prometheus_scope_org_id:
        if _SCOPE.fullmatch(target.prometheus_scope_org_id) is None:
            raise SourceUnavailableError(
                f"The tenant cannot be sent as {SCOPE_HEADER}.", reason="bad_target"
            )
        headers[SCOPE_HEADER] = target.prometheus_scope_org_id
    return headers


def _authorization(reference: str, *, url: str) -> str:
    kind = reference.partition(":")[0]
    secret = _secret(reference, url=url)
    if not kind.startswith(BASIC):
        if _TOKEN.fullmatch(secret) is None:
            raise _missing("What it names holds no token.")
        return f"Bearer {secret}"
    if ":" not in secret or not secret.isprintable():
        raise _missing("What it names holds no user:password.")
    return f"Basic {b64encode(secret.encode()).decode()}"


def _secret(reference: str, *, url: str) -> str:
    try:
        require_pinned_origin(named_secrets(reference), url=url)
        secret = _read(reference)
        require_plain_secret(secret)
    except SecretForbiddenError as error:
        raise SourceUnavailableError(
            f"The credentials for Prometheus are not used. {error}", reason="credentials_forbidden"
        ) from error
    except (OSError, ValueError) as error:
        # The error's own message would repeat the content of the file.
        raise _missing(f"Its file cannot be read ({type(error).__name__}).") from None
    return secret


def _read(reference: str) -> str:
    kind, name = split_reference(reference)
    if kind == "env":
        return secret_variable(name)
    if kind == "file":
        return read_secret(secret_path(name)).decode().strip()
    raise _missing("Use env:<NAME>, file:<path>, basic-env:<NAME> or basic-file:<path>.")


def _missing(why: str) -> SourceUnavailableError:
    return SourceUnavailableError(
        f"The credentials for Prometheus cannot be used. {why}", reason="credentials_missing"
    )

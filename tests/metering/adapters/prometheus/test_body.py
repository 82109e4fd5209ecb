"""The body as a stream: cut however the network likes, spelled however the server likes."""

import hashlib
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from metering.adapters.prometheus import body as headrooms
from metering.adapters.prometheus.body import MEMO_MAX, MISSES_MAX, Cut, QueryResponse
from metering.adapters.prometheus.names import names_of
from metering.adapters.prometheus.samples import Range, read_matrix, read_vector
from metering.protocols import ClusterTarget
from tenants.domain.errors import SourceUnavailableError

NAMES = names_of(ClusterTarget(slug="hopper"))
WITHIN = Range(1_790_845_000, 1_790_850_000)
Row = dict[str, Any]
Spelling = Callable[[object], str]
MISLEADING = (
    '"}]},{"metric":{',
    '},"values":[[',
    "]]}",
    ']],{"',
    '"result":[',
    "\\",
    '\\"},"values":[[1,"1"]]}',
    "{}[]",
    "line\nbreak",
    "\u2028é漢😀",
)
TEXTS = st.one_of(st.sampled_from(MISLEADING), st.text(alphabet='a"\\{}[],:\né😀', max_size=12))
TIMES = st.lists(
    st.integers((WITHIN.first_seconds + 1) * 1000, WITHIN.asked_seconds * 1000),
    min_size=1,
    max_size=5,
    unique=True,
).map(sorted)
VALUES = st.sampled_from(["1", "0", "NaN", "+Inf", "1.790848934e+09", "", "]]}", '"', "a b", "\\"])


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Return series of a matrix with labels that try to mislead anyone who cuts them."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        labels = draw(st.dictionaries(TEXTS.map(lambda text: f"l{text}"), TEXTS, max_size=3))
        samples = [[Decimal(at) / 1000, draw(VALUES)] for at in draw(TIMES)]
        metric: dict[str, str] = {"__name__": "up"} | labels
        found.append({"metric": metric, "values": samples})
    return found


def compact(payload: object) -> str:
    """Spell as Prometheus, Thanos and VictoriaMetrics do."""
    return json.dumps(payload, separators=(",", ":"), default=float, ensure_ascii=False)


def spaced(payload: object) -> str:
    return json.dumps(payload, indent=1, default=float)


def backwards(payload: object) -> str:
    """Spell with keys in the reverse order, everything beyond ASCII escaped."""
    return json.dumps(_reversed(payload), separators=(",", ":"), default=float)


def _reversed(payload: object) -> object:
    if isinstance(payload, dict):
        return {key: _reversed(payload[key]) for key in reversed(payload)}
    return [_reversed(one) for one in payload] if isinstance(payload, list) else payload


def answer(result: list[Row], kind: str = "matrix", **extra: object) -> dict[str, object]:
    return {"status": "success", "data": {"resultType": kind, "result": result}, **extra}


def chunks(text: str, size: int) -> Iterator[bytes]:
    whole = text.encode()
    return (whole[at : at + size] for at in range(0, len(whole), size))


@settings(max_examples=100, deadline=None)
@given(rows(), st.sampled_from([compact, spaced, backwards]), st.integers(1, 400))
@example([{"metric": {"__name__": "up", "l": MISLEADING[0]}, "values": []}], compact, 7)
def test_series_are_the_same_however_spelled_and_cut(
    result: list[Row],
    spell: Spelling,
    size: int,
) -> None:
    result = [row for row in result if row["values"]]

    series = read_matrix(QueryResponse(chunks(spell(answer(result)), size)), NAMES, WITHIN)

    assert [dict(one.labels) for one in series] == [row["metric"] for row in result]
    assert [list(one.times) for one in series] == [
        [int(at * 1000) for at, _ in row["values"]] for row in result
    ]
    assert [list(one.values) for one in series] == [
        [value for _, value in row["values"]] for row in result
    ]


@settings(max_examples=50, deadline=None)
@given(rows(), st.sampled_from([compact, spaced, backwards]), st.integers(1, 400))
def test_facts_are_the_same_however_spelled_and_cut(
    result: list[Row],
    spell: Spelling,
    size: int,
) -> None:
    facts = [{"metric": row["metric"], "value": row["values"][0]} for row in result]

    read = list(read_vector(QueryResponse(chunks(spell(answer(facts, "vector")), size)), NAMES))

    assert [(dict(one.labels), one.value) for one in read] == [
        (row["metric"], row["value"][1]) for row in facts
    ]


@settings(max_examples=50, deadline=None)
@given(rows(), st.sampled_from([compact, spaced]), st.integers(1, 200), st.data())
def test_a_body_that_breaks_off_anywhere_is_refused(
    result: list[Row],
    spell: Spelling,
    size: int,
    data: st.DataObject,
) -> None:
    whole = spell(answer(result)).encode()
    end = data.draw(st.integers(0, len(whole) - 1))
    broken = QueryResponse(whole[at : min(at + size, end)] for at in range(0, end, size))

    with pytest.raises(SourceUnavailableError) as refusal:
        read_matrix(broken, NAMES, WITHIN)

    assert refusal.value.reason == "truncated"


def sound(**labels: str) -> Row:
    return {"metric": {"__name__": "up", **labels}, "values": [[WITHIN.asked_seconds, "1"]]}


def refused(text: str) -> str:
    with pytest.raises(SourceUnavailableError) as refusal:
        read_matrix(QueryResponse([text.encode()]), NAMES, WITHIN)
    return refusal.value.reason


@pytest.mark.parametrize("extra", [{"warnings": ["a store is away"]}, {"infos": ["x"]}])
def test_a_warning_behind_all_rows_is_heard(extra: dict[str, object]) -> None:
    assert refused(compact({**answer([sound(), sound(a="b")]), **extra})) == "partial_response"


def test_a_warning_before_the_rows_is_heard() -> None:
    assert refused(compact({"isPartial": True, **answer([sound()])})) == "partial_response"


def test_statistics_and_empty_warnings_are_no_doubt() -> None:
    text = compact({"stats": {"seriesFetched": "1"}, **answer([sound()], warnings=None, infos=[])})

    assert len(read_matrix(QueryResponse([text.encode()]), NAMES, WITHIN)) == 1


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ('"result":[],"result":[]', "bad_answer"),
        ('"result":{}', "bad_answer"),
        ('"result":null', "bad_answer"),
        ('"result":[{}{}]', "bad_answer"),
        ('"result":[,]', "truncated"),
        ('"result":[]}}x', "truncated"),
        ('"result":[]]', "truncated"),
    ],
)
def test_an_odd_result_is_refused(inside: str, reason: str) -> None:
    text = f'{{"status":"success","data":{{"resultType":"matrix",{inside}}}}}'

    assert refused(text) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"result":[],"status":"success","data":{"resultType":"matrix"}}', "bad_answer"),
        ('{"result":[],"status":"success","data":{"result":["rows"]}}', "wrong_result_type"),
        ("\ufeff" + '{"status":"success","data":{"resultType":"matrix","result":[]}}', "truncated"),
    ],
    ids=["result in another place", "result in two places", "byte order mark"],
)
def test_an_odd_envelope_is_refused(text: str, reason: str) -> None:
    assert refused(text) == reason


def test_rows_without_a_comma_between_them_are_refused() -> None:
    text = compact(answer([sound(), sound()]))

    assert refused(text.replace("]]},{", "]]}{")) == "truncated"
    assert refused(text.replace("]]}]", "]]},]")) == "truncated"


def test_an_envelope_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headrooms, "ENVELOPE_CHARS_MAX", 100)

    for text in (" " * 1000 + compact(answer([])), compact(answer([], stats="x" * 1000))):
        with pytest.raises(SourceUnavailableError) as refusal:
            read_matrix(QueryResponse(chunks(text, 50)), NAMES, WITHIN)

        assert refusal.value.reason == "truncated"


def test_a_row_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headrooms, "ROW_CHARS_MAX", 100)
    text = compact(answer([sound(a="x" * 10_000)]))

    with pytest.raises(SourceUnavailableError) as refusal:
        read_matrix(QueryResponse(chunks(text, 50)), NAMES, WITHIN)

    assert refusal.value.reason == "truncated"


def test_the_digest_is_of_the_body_as_received() -> None:
    text = spaced(answer([sound(), sound(a="é")], stats={"a": 1}))
    whole = QueryResponse(chunks(text, 11))

    read_matrix(whole, NAMES, WITHIN)

    assert whole.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert whole.result_type == "matrix"


def test_a_row_is_given_before_the_next_one_has_arrived() -> None:
    arrived = []

    def arriving() -> Iterator[bytes]:
        for chunk in chunks(compact(answer([sound(a="x" * 999) for _ in range(50)])), 500):
            arrived.append(len(chunk))
            yield chunk

    first = next(QueryResponse(arriving()).series(lambda text: text))

    assert isinstance(first, Cut)
    assert sum(arrived) < 2_000


def test_texts_of_samples_that_are_alike_are_read_once() -> None:
    texts: list[str] = []

    def read(text: str) -> str:
        texts.append(text)
        return text

    whole = compact(answer([sound(pod=str(number)) for number in range(100)]))

    assert len(list(QueryResponse(chunks(whole, 300)).series(read))) == 100

    assert texts == [f'[[{WITHIN.asked_seconds},"1"]]']


def test_texts_that_never_repeat_are_not_remembered_for_ever() -> None:
    texts: list[str] = []

    def read(text: str) -> str:
        texts.append(text)
        return text

    different = [
        {"metric": {"__name__": "up"}, "values": [[WITHIN.asked_seconds, str(number)]]}
        for number in range(MEMO_MAX + 1)
    ]
    alike = [sound(pod=str(number)) for number in range(3)]
    found = list(QueryResponse([compact(answer([*different, *alike])).encode()]).series(read))

    assert len(found) == MEMO_MAX + 4
    assert texts[-3:] == [f'[[{WITHIN.asked_seconds},"1"]]'] * 3


def test_a_server_with_a_spelling_of_its_own_is_not_cut_for_long() -> None:
    tried = []

    def read(text: str) -> str | None:
        tried.append(text)
        return None

    text = compact(answer([sound(pod=str(number)) for number in range(100)]))
    found = list(QueryResponse([text.encode()]).series(read))

    assert len(found) == 100
    assert not any(isinstance(one, Cut) for one in found)
    assert len(tried) <= MISSES_MAX


@pytest.mark.parametrize("label", ["\\u0000", "\\ud800", "a\\udfffb"])
@pytest.mark.parametrize("spelling", ['"a":"%s"', '"a" : "%s"'])
def test_what_no_database_keeps_of_a_label_is_replaced(label: str, spelling: str) -> None:
    text = compact(answer([sound(a="X"), sound(a="b")])).replace('"a":"X"', spelling % label)

    replaced, kept = read_matrix(QueryResponse([text.encode()]), NAMES, WITHIN)

    assert replaced.labels["a"].strip("ab") == "\ufffd"
    assert kept.labels["a"] == "b"

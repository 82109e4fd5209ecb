"""Every broken list is refused as a whole: half a list would end anyone who is not on it."""

import pytest

from metering.adapters.kubernetes import lines
from metering.protocols.watch import ListPage, WatchedKind, WatchExpiredError
from tenants.domain.errors import SourceUnavailableError
from tests.support.metering.allocations.kubernetes import Answer, Reported, make_watch, page, pod

PODS = WatchedKind.PODS

BROKEN_LISTS: dict[str, tuple[list[Answer], str, int]] = {
    "no version": ([page(pod(), version=None)], "bad_answer", 0),
    "another kind of list": ([page(pod(), kind="SecretList")], "bad_answer", 0),
    "no list at all": ([Answer((b'{"kind":"PodList","items":5}',))], "bad_answer", 0),
    "cut": ([Answer((b'{"kind":"PodList"',), is_cut=True)], "truncated", 0),
    "half a document": ([Answer((b'{"kind":"PodList"',))], "bad_answer", 0),
    "a token that is no text": (
        [Answer((b'{"kind":"PodList","metadata":{"resourceVersion":"5","continue":7}}',))],
        "bad_answer",
        0,
    ),
    "the same uid twice on a page": ([page(pod(), pod())], "bad_answer", 0),
    "the same uid on two pages": ([page(pod(), token="a"), page(pod())], "bad_answer", 1),
    "a token that leads to itself": ([page(pod(), token="a"), page(token="a")], "bad_answer", 2),
    "pages of two moments": (
        [page(pod(), token="a"), page(pod("uid-2"), version="51")],
        "bad_answer",
        1,
    ),
    "410 on page two": ([page(pod(), token="a"), Answer(code=410)], "", 1),
    "500 on page two": ([page(pod(), token="a"), Answer(code=500)], "server_error", 1),
    "a page of a proxy": ([Answer((b"<html>",), content_type="text/html")], "bad_answer", 0),
}


@pytest.mark.parametrize("name", BROKEN_LISTS)
def test_a_broken_list_is_refused_as_a_whole(reported: Reported, name: str) -> None:
    answers, reason, pages = BROKEN_LISTS[name]
    reported.answers = list(answers)
    found: list[ListPage] = []

    with pytest.raises((SourceUnavailableError, WatchExpiredError)) as refusal:
        found.extend(make_watch().list(reported.target(), PODS))

    assert len(found) == pages
    assert len(reported.asked) == len(answers)
    assert getattr(refusal.value, "reason", "") == reason


def test_a_list_that_never_ends_is_given_up(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("metering.adapters.kubernetes.watch.PAGES_MAX", 4)
    reported.answers = [page(pod(f"uid-{number}"), token=f"t{number}") for number in range(9)]

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(reported.target(), PODS))

    assert refusal.value.reason == "bad_answer"
    assert len(reported.asked) == 4


def test_a_page_that_is_too_large_is_never_held(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "DOCUMENT_BYTES_MAX", 100_000)
    reported.answers = [Answer((b"x" * 60_000,) * 3)]

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(reported.target(), PODS))

    assert refusal.value.reason == "too_large"


def test_a_page_that_comes_too_slowly_is_given_up(
    reported: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "DOCUMENT_SECONDS_MAX", 0)
    reported.answers = [page(pod())]

    with pytest.raises(SourceUnavailableError) as refusal:
        list(make_watch().list(reported.target(), PODS))

    assert refusal.value.reason == "timeout"

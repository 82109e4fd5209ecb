"""Tests of API tokens as text."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.domain.identity.sign_in import TokenText, is_same_digest, parse_token, token_digest

HEX = "0123456789abcdef"
prefixes = st.text(HEX, min_size=12, max_size=12)
secrets = st.text(HEX, min_size=64, max_size=64)


@given(prefixes, secrets)
def test_what_is_written_is_read_back(prefix: str, secret: str) -> None:
    assert parse_token(str(TokenText(prefix, secret))) == TokenText(prefix, secret)


@given(prefixes, secrets)
def test_a_token_in_a_log_or_traceback_does_not_show_its_secret(prefix: str, secret: str) -> None:
    assert secret not in repr(TokenText(prefix, secret))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gl_",
        f"gl_{'a' * 12}_{'b' * 63}",
        f"gl_{'a' * 12}_{'b' * 64}\n",
        f"GL_{'a' * 12}_{'b' * 64}",
        f"gl_{'A' * 12}_{'b' * 64}",
        f" gl_{'a' * 12}_{'b' * 64}",
    ],
)
def test_text_of_another_form_is_no_token(text: str) -> None:
    assert parse_token(text) is None


@given(secrets, st.text(min_size=1))
def test_the_digest_is_hmac_sha256_under_the_pepper(secret: str, pepper: str) -> None:
    expected = hmac.new(pepper.encode(), secret.encode(), hashlib.sha256).digest()

    assert token_digest(secret, pepper=pepper) == expected


def test_another_pepper_gives_another_digest() -> None:
    one, other = (token_digest("secret", pepper=pepper) for pepper in ("one", "other"))

    assert not is_same_digest(one, other)
    assert is_same_digest(one, token_digest("secret", pepper="one"))

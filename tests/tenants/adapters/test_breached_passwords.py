"""Tests of the operator's list of breached passwords."""

from hashlib import sha1
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from tenants.adapters.breached_passwords import BreachedPasswordValidator

LISTED = [f"password {number}" for number in range(40)]


def digest_of(password: str) -> str:
    return sha1(password.encode(), usedforsecurity=False).hexdigest().upper()


def is_refused(path: Path, password: str) -> bool:
    try:
        BreachedPasswordValidator(path=path).validate(password)
    except ValidationError as error:
        return error.code == "password_breached"
    return False


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 40])
def test_exactly_the_passwords_of_the_file_are_refused(
    tmp_path: Path, length: int, end: str
) -> None:
    file = tmp_path / "breached"
    counted = sorted(f"{digest_of(one)}:{7**at}" for at, one in enumerate(LISTED[:length]))
    file.write_bytes("".join(line + end for line in counted).encode())

    assert [one for one in LISTED if is_refused(file, one)] == LISTED[:length]


def test_a_file_of_another_form_is_a_fault_and_not_an_assent(tmp_path: Path) -> None:
    file = tmp_path / "breached"
    file.write_text("password\nletmein\n")

    with pytest.raises(ValueError, match="SHA1:count"):
        is_refused(file, "password")

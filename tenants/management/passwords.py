"""Asking for a password on a terminal, with Django's validators."""

import getpass
from typing import Final

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError, OutputWrapper

TRIES_MAX: Final = 3


def ask_password(person: User, *, stderr: OutputWrapper) -> str:
    """Return a password that was typed twice and is good enough for a person.

    Raises:
        CommandError: It was not, three times.
    """
    for _ in range(TRIES_MAX):
        password = getpass.getpass()
        if password != getpass.getpass("Password (again): "):
            stderr.write("The passwords differ.")
            continue
        try:
            validate_password(password, person)
        except ValidationError as error:
            stderr.write("\n".join(error.messages))
        else:
            return password
    raise CommandError("No password was set.")

"""Signed-in browsers for the admin tests, and the links that mails bring."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from django.core import mail
from django.test import Client, TestCase
from django.utils import timezone

from tenants.adapters import mail as mails
from tenants.tasks import send_password_links


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@contextmanager
def committed() -> Iterator[None]:
    """Do at the end what a commit does."""
    with TestCase.captureOnCommitCallbacks(execute=True):
        yield


def links_sent(host: str = "http://127.0.0.1:8000") -> list[str]:
    """Return the paths of all links that were mailed, once a worker has sent what was asked for."""
    send_password_links(at=timezone.now())
    mails._POST.submit(lambda: None).result(10)  # noqa: SLF001 - One thread: the queue's end.
    found = [
        re.findall(rf"^{re.escape(host)}(/\S+)$", str(m.body), re.MULTILINE) for m in mail.outbox
    ]
    return [link for links in found for link in links]

"""Signed-in browsers for the admin tests."""

from django.contrib.auth.models import User
from django.test import Client


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client

"""Tests of the admin pages of people."""

from django.contrib.auth.models import User

from tenants.models import AuditEntry
from tests.cast import Cast
from tests.tenants.admin.desk import enter


def test_a_person_is_made_with_an_audit_entry_and_without_the_password_in_it(cast: Cast) -> None:
    client = enter(cast.frank)
    made = client.post(
        "/admin/auth/user/add/",
        {
            "username": "newcomer",
            "usable_password": "true",
            "password1": "correct horse battery",
            "password2": "correct horse battery",
        },
    )

    assert made.status_code == 302
    entry = AuditEntry.objects.get(action="tenants:user:create")
    assert entry.facts["username"] == "newcomer"
    assert "correct horse" not in str(entry.facts)


def test_another_password_leaves_an_audit_entry(cast: Cast) -> None:
    response = enter(cast.frank).post(
        f"/admin/auth/user/{cast.carol.pk}/password/",
        {
            "usable_password": "true",
            "password1": "a much longer phrase",
            "password2": "a much longer phrase",
        },
    )

    assert response.status_code == 302
    assert AuditEntry.objects.get(action="tenants:user:update").object_id == str(cast.carol.pk)


def test_nobody_makes_themselves_superuser_in_the_form(cast: Cast) -> None:
    enter(cast.frank).post(
        f"/admin/auth/user/{cast.frank.pk}/change/",
        {"username": "frank", "is_superuser": "on", "is_staff": "on"},
    )

    assert not User.objects.get(pk=cast.frank.pk).is_superuser


def test_the_last_platform_admin_is_not_deactivated(cast: Cast) -> None:
    page = enter(cast.frank).post(
        "/admin/auth/user/",
        {"action": "deactivate_people", "_selected_action": str(cast.frank.pk)},
        follow=True,
    )

    assert "Make another person platform admin first." in page.content.decode()
    assert User.objects.get(pk=cast.frank.pk).is_active

"""The addresses of every view."""

from django.contrib import admin
from django.contrib.auth.views import LogoutView
from django.urls import include, path, re_path
from django.views.i18n import set_language

from config.api import unknown_resource
from config.app.frame import root
from config.monitoring.health import healthz, readyz
from tenants.admin import accounts, own_access
from tenants.admin.sign_in import sign_in

handler403 = "config.responses.forbidden"
handler404 = "config.responses.not_found"
ACCOUNT_PAGES = [
    path("", own_access.own_access, name="own_access"),
    path("sign-in/", own_access.SignInView.as_view(), name="sign_in"),
    path("sign-out/", LogoutView.as_view(next_page="sign_in"), name="sign_out"),
    path("tokens/", own_access.issue_own_token, name="own_token_issue"),
    path("first-token/", own_access.ask_first_token, name="own_first_token"),
    path("tokens/<uuid:token_id>/end/", own_access.end_own_token, name="own_token_end"),
    path("sessions/end/", own_access.end_own_sessions, name="own_sessions_end"),
    path(
        "password/",
        own_access.signed_in(own_access.ChangeOwnPasswordView.as_view()),
        name="own_password",
    ),
    # The theme's sign-in page shows its link to the first of these by this name.
    path("new-password/", accounts.PasswordLinkView.as_view(), name="admin_password_reset"),
    path("new-password/sent/", accounts.PasswordLinkSentView.as_view(), name="password_reset_done"),
    path("password/set/", accounts.SetDoneView.as_view(), name="password_reset_complete"),
    path("password/<uidb64>/<token>/", accounts.SetView.as_view(), name="password_reset_confirm"),
    path("invitation/<secret>/", accounts.InvitationView.as_view(), name="invitation"),
    path("address/<signed>/", accounts.AddressView.as_view(), name="address_confirm"),
]
"""Pages for one's own account."""
urlpatterns = [
    path("", root, name="root"),
    path("app/", include("config.app.urls")),
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("accounts/", include(ACCOUNT_PAGES)),
    path("language/", set_language, name="set_language"),
    path("admin/login/", sign_in),
    path("admin/password_change/", admin.site.admin_view(accounts.OwnPasswordView.as_view())),
    path("admin/", admin.site.urls),
    path("api/v1/", include("config.api")),
    re_path(r"^api(?:/(?P<rest>.*))?$", unknown_resource),
]

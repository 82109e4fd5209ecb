"""The addresses of pages for one's own account, below /accounts/."""

from django.contrib.auth.views import LogoutView
from django.urls import path

from tenants.admin import accounts, own_access

urlpatterns = [
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
    path("new-password/", accounts.ForgottenView.as_view(), name="admin_password_reset"),
    path("new-password/sent/", accounts.ForgottenDoneView.as_view(), name="password_reset_done"),
    path("password/set/", accounts.SetDoneView.as_view(), name="password_reset_complete"),
    path("password/<uidb64>/<token>/", accounts.SetView.as_view(), name="password_reset_confirm"),
    path("invitation/<secret>/", accounts.InvitationView.as_view(), name="invitation"),
    path("address/<signed>/", accounts.AddressView.as_view(), name="address_confirm"),
]

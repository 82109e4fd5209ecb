"""The addresses of pages for one's own account, below /accounts/."""

from django.urls import path

from tenants.admin import accounts

urlpatterns = [
    # The theme's sign-in page shows its link to the first of these by this name.
    path("new-password/", accounts.ForgottenView.as_view(), name="admin_password_reset"),
    path("new-password/sent/", accounts.ForgottenDoneView.as_view(), name="password_reset_done"),
    path("password/set/", accounts.SetDoneView.as_view(), name="password_reset_complete"),
    path("password/<uidb64>/<token>/", accounts.SetView.as_view(), name="password_reset_confirm"),
    path("invitation/<secret>/", accounts.InvitationView.as_view(), name="invitation"),
    path("address/<signed>/", accounts.AddressView.as_view(), name="address_confirm"),
]

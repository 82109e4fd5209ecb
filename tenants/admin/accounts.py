"""Pages for one's own account: set a password by a link, change it, confirm another address.

They are Django's own views with our forms, which write through a service: every password set ends
the person's tokens and is audited. A page answers alike whether an account exists.
"""

from typing import TYPE_CHECKING, Any, Final

from django import forms
from django.contrib import admin
from django.contrib.auth import views
from django.contrib.auth.forms import PasswordResetForm, SetPasswordForm
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext, gettext_lazy
from django.views.generic import FormView, TemplateView
from unfold.forms import AdminOwnPasswordChangeForm
from unfold.widgets import (
    UnfoldAdminEmailInputWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextInputWidget,
)

from tenants.admin.links import read_address_link, send_password_link
from tenants.admin.sign_in import (
    as_limited,
    keep_device,
    network_of,
    prove_own_password,
)
from tenants.domain.actors import system_actor
from tenants.domain.errors import DomainError
from tenants.domain.identity.refusals import LinkInvalidError
from tenants.domain.refusals import TooManyAttemptsError
from tenants.models import Invitation
from tenants.selectors.actors import actor_of_user
from tenants.selectors.people import people_with_address
from tenants.services.identity.account_changes import confirm_address
from tenants.services.identity.invitations import accept_invitation, open_invitation
from tenants.services.identity.password_links import LINKS, ask_password_link
from tenants.services.identity.people import note_link_refused, set_password
from tenants.services.identity.sign_in import count_forged_link

INVITATIONS: Final = system_actor("accounts.invitation")

if TYPE_CHECKING:
    SetForm = SetPasswordForm[User]
    View = FormView[Any]
else:
    SetForm = SetPasswordForm
    View = object


class LinkRequestForm(PasswordResetForm):
    """An address; each account that has it gets a link from a worker."""

    email = forms.EmailField(
        max_length=254, label=gettext_lazy("Mail address"), widget=UnfoldAdminEmailInputWidget()
    )

    def save(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, ARG002 - Django's signature.
        """Store the request; work and response time do not depend on the address."""
        ask_password_link(
            email=self.cleaned_data["email"],
            network=network_of(kwargs["request"]),
            actor=LINKS,
            at=timezone.now(),
        )


class AuditedForm(SetForm):
    """A new password, written by the service."""

    by = "link"

    def save(self, commit: bool = True) -> User:  # noqa: ARG002, FBT001, FBT002 - Django's signature.
        """Set the password and end the tokens."""
        return set_password(
            user=self.user,
            password=self.cleaned_data["new_password1"],
            by=self.by,
            actor=actor_of_user(self.user),
            at=timezone.now(),
        )


class LinkPasswordForm(AuditedForm):
    """The form behind a link."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Give the fields the theme's look."""
        super().__init__(*args, **kwargs)
        for name in ("new_password1", "new_password2"):
            self.fields[name].widget = UnfoldAdminPasswordWidget(
                attrs={"autocomplete": "new-password"}
            )


class OwnPasswordForm(AdminOwnPasswordChangeForm, AuditedForm):
    """Change one's own password, with the rate limits of sign-in."""

    by = "own"
    request: HttpRequest

    def clean_old_password(self) -> str:
        """Return the old password once it is proven.

        Raises:
            ValidationError: It is wrong, or was not looked at.
        """
        password = str(self.cleaned_data["old_password"])
        try:
            is_right = prove_own_password(self.request, self.user, password)
        except TooManyAttemptsError as error:
            raise ValidationError(f"{error.message} {error.advice}", code=error.code) from error
        if not is_right:
            raise ValidationError(
                self.error_messages["password_incorrect"], code="password_incorrect"
            )
        return password


class SitePage(View):
    """A form view with the theme's context; shows refusals of its service in the form."""

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - Django's signature.
        """Return the template's values."""
        site = admin.site.each_context(self.request)
        return {**site, **super().get_context_data(**kwargs)}

    def form_valid(self, form: Any) -> HttpResponse:  # noqa: ANN401 - A form of either kind.
        """Save, and show a refusal beside the form."""
        try:
            return super().form_valid(form)
        except DomainError as error:
            form.add_error(None, f"{error.message} {error.advice}")
            return self.form_invalid(form)


class PasswordLinkView(SitePage, views.PasswordResetView):
    """Ask for a link."""

    form_class = LinkRequestForm
    template_name = "accounts/form.html"
    success_url = reverse_lazy("password_reset_done")
    title = gettext_lazy("Set a password by a link")
    extra_context = {
        "button": gettext_lazy("Send me a link"),
        "help": gettext_lazy(
            "Write the mail address of your account. A link goes there, with which you set a "
            "new password. It ends your API tokens and your sessions."
        ),
    }


class PasswordLinkSentView(SitePage, views.PasswordResetDoneView):
    """The same sentence for every address."""

    title = gettext_lazy("Look into your mails")
    template_name = "accounts/form.html"
    extra_context = {
        "text": gettext_lazy(
            "If an account has this address, a link is on its way to it. It can be used once, "
            "within a day. No more than one is sent in five minutes. If no mail comes, ask a "
            "platform admin which address your account has."
        )
    }


class SetView(SitePage, views.PasswordResetConfirmView):
    """Set a password by a link."""

    form_class = LinkPasswordForm
    template_name = "accounts/form.html"
    success_url = reverse_lazy("password_reset_complete")
    title = gettext_lazy("Set your password")
    extra_context = {
        "button": gettext_lazy("Set the password"),
        "text": gettext_lazy(
            "This link was used before, is too old, or is not whole. Get a new one."
        ),
        "is_link_needed": True,
    }

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - Django's signature.
        """Return the template's values; a link that is not valid is noted."""
        if self.user is None:
            note_forged(self.request, "password")
        elif not self.validlink:
            note_link_refused(user=self.user, actor=LINKS, at=timezone.now())
        values = super().get_context_data(**kwargs)
        if self.user is None or not self.validlink:
            return {**values, "title": gettext_lazy("This link cannot be used")}
        return {
            **values,
            "help": gettext("For the account {name}.").format(name=self.user.get_username()),
        }


class SetDoneView(SitePage, views.PasswordResetCompleteView):
    """The password is set."""

    template_name = "accounts/form.html"
    title = gettext_lazy("Your password is set")
    extra_context = {
        "text": gettext_lazy(
            "The password is set: sign in with it now. Your API tokens and sessions have ended."
        )
    }


class OwnPasswordView(SitePage, views.PasswordChangeView):
    """Change one's own password; this session stays, all others end."""

    form_class = OwnPasswordForm
    success_url = reverse_lazy("admin:password_change_done")

    def form_valid(self, form: Any) -> HttpResponse:  # noqa: ANN401 - Django's signature.
        """Save; the browser is known by the new password."""
        answer = super().form_valid(form)
        if not form.errors:
            keep_device(self.request, form.user)
        return answer

    def get_form(self, form_class: type[forms.BaseForm] | None = None) -> Any:  # noqa: ANN401 - Django's signature.
        """Return the form, which asks where an attempt comes from."""
        form = super().get_form(form_class)
        form.request = self.request
        return form

    def form_invalid(self, form: Any) -> HttpResponse:  # noqa: ANN401 - As above.
        """Show the errors."""
        return as_limited(self.request, super().form_invalid(form))


class LinkView(TemplateView):
    """What a link of a mail is for, and a button: nothing happens by following it alone."""

    template_name = "accounts/form.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 - Django's signature.
        """Return the template's values."""
        return {**admin.site.each_context(self.request), **kwargs}

    def page(self, **values: object) -> HttpResponse:
        """Return the page, which no proxy keeps."""
        answer = self.render_to_response(self.get_context_data(**values))
        answer["Cache-Control"] = "no-store"
        return answer


class AddressView(LinkView):
    """Confirm another address."""

    extra_context = {"title": gettext_lazy("Confirm another mail address")}

    def get(self, request: HttpRequest, signed: str) -> HttpResponse:  # noqa: ARG002 - Django's signature.
        """Show the button."""
        try:
            _, email, owner = read_address_link(signed)
        except DomainError as error:
            return self.page(**self.extra_context, text=f"{error.message} {error.advice}")
        text = gettext(
            "The account {name} leaves the address {email}; the mail names the new one, "
            "and who asks for it. The password, sessions and API tokens of the account end."
        ).format(name=owner.label, email=email)
        return self.page(
            **self.extra_context, button=gettext_lazy("Confirm"), form=forms.Form(), help=text
        )

    def post(self, request: HttpRequest, signed: str) -> HttpResponse:
        """Make the change."""
        try:
            change_id, email, owner = read_address_link(signed)
            confirm_address(change_id=change_id, email=email, actor=owner, at=timezone.now())
        except DomainError as error:
            if isinstance(error, LinkInvalidError):
                note_forged(request, "address")
            return self.page(**self.extra_context, text=f"{error.message} {error.advice}")
        text = gettext(
            "The new address is in use. A link to set your password is on its way to it."
        )
        return self.page(**self.extra_context, text=text)


class NewcomerForm(forms.Form):
    """The user name of an account to make."""

    username = forms.CharField(
        max_length=150,
        label=gettext_lazy("Choose a user name"),
        widget=UnfoldAdminTextInputWidget(),
    )


class SharedAddressForm(NewcomerForm):
    """The user name of one of the accounts that have the address."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature.
        """Ask for the name that is there."""
        super().__init__(*args, **kwargs)
        self.fields["username"].label = gettext_lazy("User name of your account")


class InvitationView(LinkView):
    """Accept an invitation; a person without an account chooses a user name."""

    title = gettext_lazy("This invitation cannot be accepted")

    def get(self, request: HttpRequest, secret: str) -> HttpResponse:  # noqa: ARG002 - Django's signature.
        """Show the offered role."""
        try:
            invitation = open_invitation(secret, at=timezone.now())
        except DomainError as error:
            return self._refused(error)
        return self._offer(invitation, _form_of(invitation)())

    def post(self, request: HttpRequest, secret: str) -> HttpResponse:
        """Give the role, and send newcomers a link to set a password."""
        at, name = timezone.now(), request.POST.get("username", "")
        try:
            person = accept_invitation(secret=secret, username=name, actor=INVITATIONS, at=at)
        except DomainError as error:
            if problems := _name_problems(error):
                return self._ask_again(open_invitation(secret, at=at), problems)
            return self._refused(error)
        if not person.has_usable_password():
            send_password_link(person, actor=INVITATIONS, at=at)
            text = gettext(
                "The role is yours. Your user name is {name}. A link to set your "
                "password is on its way to you."
            ).format(name=person.get_username())
            return self.page(title=gettext_lazy("You have accepted"), text=text)
        text = gettext("The role is yours. Sign in to use it.")
        return self.page(title=gettext("You have accepted"), text=text)

    def _offer(self, invitation: Invitation, form: forms.Form) -> HttpResponse:
        title = gettext("{role} of {scope}").format(
            role=gettext(invitation.get_role_display()),
            scope=invitation.project or invitation.organization,
        )
        return self.page(
            title=title, form=form, button=gettext_lazy("Accept"), help=_offer_text(invitation)
        )

    def _ask_again(self, invitation: Invitation, problems: list[str]) -> HttpResponse:
        """Return the form as it was filled in, with what is wrong beside the name."""
        form = _form_of(invitation)(self.request.POST)
        if form.is_valid():
            form.add_error("username" if "username" in form.fields else None, problems)
        return self._offer(invitation, form)

    def _refused(self, error: DomainError) -> HttpResponse:
        if isinstance(error, LinkInvalidError):
            note_forged(self.request, "invitation")
        problems = [f"{one.field}: {one.message}" for one in error.problems]
        text = " ".join([error.message, *problems, error.advice])
        return self.page(title=self.title, text=text)


def note_forged(request: HttpRequest, link: str) -> None:
    """Count a link that was never sent; its pages look alike whether it is audited."""
    count_forged_link(link=link, network=network_of(request), actor=LINKS, at=timezone.now())


def _offer_text(invitation: Invitation) -> str:
    account = gettext("The account with this address gets it.")
    if not people_with_address(invitation.email):
        account = gettext(
            "No account has this address: one is made, and gets a link to set a password."
        )
    offer = gettext("{person} offers this role to {email} until {moment} UTC.").format(
        person=invitation.invited_by.get_username(),
        email=invitation.email,
        moment=date_format(invitation.expires_at, gettext("j F Y, H:i")),
    )
    return f"{offer} {account}"


def _name_problems(error: DomainError) -> list[str]:
    """Return the problems of the user name; none when another field is wrong too."""
    if error.problems:
        is_name = all(one.field == "username" for one in error.problems)
        return [one.message for one in error.problems] if is_name else []
    return [f"{error.message} {error.advice}"] if error.field == "username" else []


def _form_of(invitation: Invitation) -> type[forms.Form]:
    known = people_with_address(invitation.email)
    if not known:
        return NewcomerForm
    return forms.Form if len(known) == 1 else SharedAddressForm

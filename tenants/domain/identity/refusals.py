"""Refusals about people, passwords, invitations and sessions; each with its own code."""

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError

ON_THE_HOST = "manage.py person"


class SecondPersonRequiredError(ConflictError):
    """This change needs a second person."""

    code = "second_person_required"
    is_audited = True
    remedy = (
        "Ask for it in the admin under Tenants, Account changes; another platform admin decides."
    )


class SecondPersonMissingError(ConflictError):
    """There are fewer than two platform admins, or no mail: nothing is decided over the web."""

    code = "second_person_missing"
    remedy = f"Run `{ON_THE_HOST}` on the host of the service; it is audited."


class TokenIssuedError(ConflictError):
    """The form for this token was sent before."""

    code = "token_issued_before"
    remedy = "Open the page anew to issue another one."


class ChangeNotYoursError(ForbiddenError):
    """The actor may not ask for this change, or is not a second person to it."""

    code = "account_change_not_yours"
    remedy = "Another platform admin decides: neither who asked, nor who would be raised."


class ChangeAskedError(ConflictError):
    """The same change is open already."""

    code = "account_change_asked"
    remedy = "Decide on the open one under Tenants, Account changes."


class ChangeDecidedError(ConflictError):
    """It was approved or declined before."""

    code = "account_change_decided"
    remedy = "Ask for the change again."


class ChangeExpiredError(ConflictError):
    """It was not decided in time."""

    code = "account_change_expired"
    remedy = "Ask for the change again."


class ChangeOutdatedError(ConflictError):
    """The account has changed since the request."""

    code = "account_change_outdated"
    remedy = "Decline it, look at the account, and ask for the change again."


class ChangeNeedlessError(ConflictError):
    """The account is so already, or the change has no sense for this person."""

    code = "account_change_needless"
    remedy = "Nothing needs to be done."


class LinkInvalidError(InvalidInputError):
    """A link of a mail was used before, is too old, or was never sent."""

    code = "link_invalid"
    remedy = "Ask for a new link."


class InvitationOpenError(ConflictError):
    """The address is invited to this role already."""

    code = "invitation_open"
    remedy = "Withdraw the open invitation first, or wait for an answer."


class AddressSharedError(ConflictError):
    """Several accounts have the invited address; which one is meant was not named."""

    code = "address_shared"
    remedy = "Write the user name of the account that gets the role."


class InvitationClosedError(ConflictError):
    """The invitation was accepted or withdrawn, or is too old."""

    code = "invitation_closed"
    remedy = "Ask for a new invitation."


class UsernameTakenError(ConflictError):
    """Another person signs in with this name."""

    code = "username_taken"
    remedy = "Choose another user name."


class MailMissingError(ConflictError):
    """No mail server is set up, so no link can be sent."""

    code = "mail_missing"
    remedy = f"Set EMAIL_URL, or run `{ON_THE_HOST}` and `manage.py changepassword` on the host."

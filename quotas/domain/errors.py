"""Refusals of quotas, one class each."""

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError


class QuotaInputError(InvalidInputError):
    """Sizes, units or words that can never be a limit or a request."""

    code = "quota_input_invalid"
    remedy = "Correct the fields named under problems."


class QuotaScopeError(InvalidInputError):
    """A scope that does not fit what it names."""

    code = "quota_scope_invalid"
    remedy = "A project limit names a project of the organization, a user limit both."


class QuotaHierarchyBrokenError(ConflictError):
    """A limit that does not fit under the ones above it, or over the ones below it."""

    code = "quota_hierarchy_broken"
    remedy = "Change the limits named under problems first, or choose another number."


class QuotaLimitExistsError(ConflictError):
    """The limit that was to be made is set already."""

    code = "quota_limit_exists"
    remedy = "Change it under its own address, with its ETag as If-Match."


class IsolationPolicyExistsError(ConflictError):
    """The policy that was to be made is there already."""

    code = "isolation_policy_exists"
    remedy = "Change it under its own address, with its ETag as If-Match."


class QuotaLimitGrantedError(ConflictError):
    """The limit has grants in force or to come, which would hang in the air without it."""

    code = "quota_limit_granted"
    remedy = "End the grants of the limit first, or wait until they end."


class QuotaLimitUnlimitedError(ConflictError):
    """Units on top of a limit that is unlimited would mean nothing."""

    code = "quota_limit_unlimited"
    remedy = "Set the limit to a number first."


class QuotaGrantOverError(ConflictError):
    """The grant has ended already, or ends before the time named."""

    code = "quota_grant_over"
    remedy = "Name a time at which it is still in force, or make a new grant."


class QuotaGrantLentError(ConflictError):
    """One half of a loan cannot end without the other."""

    code = "quota_grant_lent"
    remedy = "End the loan; both of its grants end with it."


class QuotaRequestDecidedError(ConflictError):
    """The request has been decided otherwise, or withdrawn."""

    code = "quota_request_decided"
    remedy = "Submit a new request."


class QuotaRequestOutdatedError(ConflictError):
    """The limit has changed since the request was made, so its number means something else."""

    code = "quota_request_outdated"
    remedy = "Reject this request and ask for a new one."


class OwnQuotaRequestError(ForbiddenError):
    """Nobody decides their own request."""

    code = "own_quota_request"
    remedy = "Ask another administrator to decide, or cancel the request."


class PersonRequiredError(ForbiddenError):
    """Only a person may do this: a program cannot sign."""

    code = "person_required"
    remedy = "Sign in, or use an API token of a person."


class QuotaLoanDecidedError(ConflictError):
    """The loan was decided otherwise, or is over."""

    code = "quota_loan_decided"
    remedy = "Look at the loan's state; the next hour proposes what would help now."


class QuotaLoanOutdatedError(ConflictError):
    """The lender no longer holds idle what it would lend, or the borrower may no longer have it."""

    code = "quota_loan_outdated"
    remedy = "Decline it; the next hour proposes what would help now."

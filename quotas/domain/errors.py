"""Refusals of quotas, one class each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tenants.domain.errors import ConflictError, ForbiddenError, InvalidInputError

if TYPE_CHECKING:
    from quotas.domain.limits.tree import Violation


class QuotaInputError(InvalidInputError):
    """Sizes, units or texts that are not valid in a limit or a request."""

    code = "quota_input_invalid"
    remedy = "Correct the fields named under problems."


class QuotaScopeError(InvalidInputError):
    """A scope that does not fit what it names."""

    code = "quota_scope_invalid"
    remedy = "A project limit names a project of the organization, a user limit both."


class QuotaHierarchyBrokenError(ConflictError):
    """A limit that does not fit under the ones above it, or over the ones below it.

    Attributes:
        violations: The broken rules with their limits; returned under `problems`.
    """

    code = "quota_hierarchy_broken"
    remedy = "Change the limits named under problems first, or choose another number."

    def __init__(self, violations: "Sequence[Violation]", *, field: str) -> None:
        """Build the refusal of a change; `field` is the input field to name."""
        problems = tuple(violation.as_problem(field) for violation in violations)
        super().__init__(problems[0].message, field=field, problems=problems)
        self.violations = tuple(violations)


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


class RequestPolicyExistsError(ConflictError):
    """The policy that was to be made is there already."""

    code = "request_policy_exists"
    remedy = "Change it under its own address, with its ETag as If-Match."


class QuotaRequestWithoutLimitError(ConflictError):
    """Units for a time come on top of a limit, and there is none, or it is unlimited."""

    code = "quota_request_without_limit"
    remedy = "Ask without begin_at and end_at, so that a limit is set first."


class QuotaRequestNothingMoreError(ConflictError):
    """The requested units for a time are not more than those in force then."""

    code = "quota_request_nothing_more"
    remedy = "Ask for the total you want to hold in all: requested_units is never the difference."


class QuotaRequestNotRenewableError(ConflictError):
    """Only an approval for a time can be extended."""

    code = "quota_request_not_renewable"
    remedy = "Submit a new request."


class QuotaBulkRefusedError(InvalidInputError):
    """One request of several cannot be made, so none was."""

    code = "quota_bulk_refused"
    remedy = "Correct the requests named under problems, and send all of them again."


class QuotaRequestDecidedTwiceError(ForbiddenError):
    """The same person does not decide two steps of a request."""

    code = "quota_request_decided_twice"
    remedy = "Ask another person of the level whose turn it is."


class OwnQuotaRequestError(ForbiddenError):
    """A user must not decide their own request."""

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


class PreemptionInputError(InvalidInputError):
    """What can never be a plan or a protected window."""

    code = "preemption_input_invalid"
    remedy = "Correct the fields named under problems."


class PreemptionNotNeededError(ConflictError):
    """No limit is exceeded, so nothing is preempted."""

    code = "preemption_not_needed"
    remedy = "Lower the limit first, or say how much burst must yield."


class PreemptionRunningError(ConflictError):
    """Another plan of the organization is running."""

    code = "preemption_running"
    remedy = "Wait until it has ended, or stop it."


class PreemptionPlanEndedError(ConflictError):
    """The plan has ended, or is too old to be true."""

    code = "preemption_plan_ended"
    remedy = "Make a new plan."


class QuotaNotAppliedError(ConflictError):
    """A namespace's quota is not in its cluster yet, so preempted pods would only come back."""

    code = "quota_not_applied"
    remedy = "Wait until the enforcement targets named under facts are applied, or repair them."


class ProtectedWindowClosedError(ConflictError):
    """The protected window has ended already."""

    code = "protected_window_closed"
    remedy = "Make a new one."

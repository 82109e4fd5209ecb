"""What tenants refuse, one class per refusal, so that each has its own stable code and remedy."""

from tenants.domain.errors import ConflictError, DomainError, ForbiddenError


class UnauthenticatedError(DomainError):
    """The caller is not authenticated: credentials are missing, wrong, expired or revoked."""

    code = "unauthenticated"
    status = 401
    remedy = "Send `Authorization: Bearer <token>` with a valid API token, or sign in."


class TooManyAttemptsError(DomainError):
    """Too many passwords or tokens were wrong, so this one is not looked at."""

    code = "too_many_attempts"
    status = 429
    remedy = "Wait until then; networks you signed in from before have a limit of their own."


class TooManyRequestsError(DomainError):
    """A caller made more requests in a minute than the site allows."""

    code = "too_many_requests"
    status = 429
    remedy = "Wait until then; ask for larger pages, and with If-None-Match for what you know."


class TooManyInvitationsError(DomainError):
    """One address was invited, or one account invited, too often within some minutes."""

    code = "too_many_invitations"
    status = 429
    is_audited = True
    remedy = "Wait until then; an invitation that was sent is good for seven days."


class BodyTooLargeError(DomainError):
    """The body of a request has more bytes than are read."""

    code = "body_too_large"
    status = 413
    remedy = "Send less at once, in several requests."


class BodyTooDeepError(DomainError):
    """The objects and lists of a body are nested deeper than any request needs."""

    code = "body_too_deep"
    status = 400
    remedy = "Send a body as the API description shows it."


class PreconditionRequiredError(DomainError):
    """A change does not name the version it changes (If-Match)."""

    code = "precondition_required"
    status = 428
    remedy = "Fetch the object and send its ETag as If-Match."


class StaleVersionError(DomainError):
    """Another request changed it in the meantime."""

    code = "stale_version"
    status = 412
    remedy = "Fetch the object again, look at the change, and send its new ETag as If-Match."


class IdempotencyKeyRequiredError(DomainError):
    """A POST that grants quota or creates charges has no Idempotency-Key."""

    code = "idempotency_key_required"
    status = 400
    remedy = "Send an Idempotency-Key header: 1 to 255 visible characters, new for each intent."


class IdempotencyKeyReusedError(DomainError):
    """The key was used before for something else, or with a token of other scopes."""

    code = "idempotency_key_reused"
    status = 422
    remedy = "Use a new Idempotency-Key for a new request or another token."


class IdempotencyRoleLostError(ForbiddenError):
    """The stored answer was made under a role that the caller does not hold any more."""

    code = "idempotency_role_lost"
    remedy = "Send it under a new Idempotency-Key: it is then judged by the roles you hold now."


class IdempotencyKeyInUseError(ConflictError):
    """The first request with this key is still being answered."""

    code = "idempotency_key_in_use"
    remedy = "Wait a moment and send the same request again."


class SlugTakenError(ConflictError):
    """Something of the same kind has this slug."""

    code = "slug_taken"
    remedy = "Choose another slug."


class OrganizationClosedError(ConflictError):
    """A closed organization takes nothing new."""

    code = "organization_closed"
    remedy = "Use an active organization."


class ProjectClosedError(ConflictError):
    """A closed project takes nothing new."""

    code = "project_closed"
    remedy = "Use an active project."


class EndpointKnownError(ConflictError):
    """The address is already registered."""

    code = "notification_endpoint_known"
    remedy = "Change its events under its own address, or close it first."


class EndpointClosedError(ConflictError):
    """The notification endpoint is closed; it gets no more events."""

    code = "notification_endpoint_closed"
    remedy = "Register its address again."


class DeliveryNotFailedError(ConflictError):
    """The delivery has not failed for good."""

    code = "notification_delivery_not_failed"
    remedy = "Wait for its next attempt: next_at says when that is."


class ClusterClosedError(ConflictError):
    """A closed cluster takes nothing new."""

    code = "cluster_closed"
    remedy = "Use an active cluster."


class OpenProjectsError(ConflictError):
    """An organization with active projects cannot be closed."""

    code = "organization_has_open_projects"
    remedy = "Close its projects first."


class OpenBindingsError(ConflictError):
    """A project or cluster with bound namespaces cannot be closed."""

    code = "namespaces_still_bound"
    remedy = "End its namespace bindings first."


class NamespaceBoundError(ConflictError):
    """The namespace belongs to a project in some of these hours already."""

    code = "namespace_already_bound"


class BindingEndedError(ConflictError):
    """A binding that has ended keeps its hours: they are metered."""

    code = "binding_ended"
    remedy = "Bind the namespace again from a later hour."


class RoleHeldError(ConflictError):
    """The role is held already."""

    code = "role_already_held"
    remedy = "Nothing needs to be done."


class DutiesConflictError(ConflictError):
    """One person would hold two roles that watch each other."""

    code = "duties_conflict"
    remedy = "Give the role to another person, or take the other role away first."


class LastPlatformAdminError(ConflictError):
    """Without a platform admin no access could be granted any more."""

    code = "last_platform_admin"
    remedy = "Make another person platform admin first."


class RoleNotYoursToGiveError(ForbiddenError):
    """The actor may not hand out or take away this role here."""

    code = "role_not_yours_to_give"
    remedy = "Ask somebody whose role covers it: nobody gives a role to themselves."


class TokenNotYoursToIssueError(ForbiddenError):
    """The actor may not issue this token."""

    code = "token_not_yours_to_issue"
    remedy = "Issue tokens for yourself or for service accounts of your organization."


class HolderInactiveError(ConflictError):
    """The user or service account cannot act, so it takes no token or role."""

    code = "holder_inactive"
    remedy = "Activate it first, or choose another."


class ClockOffError(DomainError):
    """The clock of this process is far from the database's."""

    code = "clock_off"
    remedy = "Correct the clock of its machine (NTP); the process then continues by itself."

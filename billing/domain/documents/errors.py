"""Refusals of issuers, recipients and routes."""

from tenants.domain.errors import ConflictError, InvalidInputError


class IssuerExistsError(ConflictError):
    """The slug is taken, or one of the prefixes is another issuer's or the site's."""

    code = "issuer_exists"
    remedy = "Choose a slug and prefixes of numbers that no other issuer and no setting has."


class IssuerIncompleteError(ConflictError):
    """The issuer of a document lacks what has to be printed of it."""

    code = "issuer_incomplete"
    remedy = (
        "Set it in the site's environment, or in the issuer's fields in the admin; then draft "
        "again."
    )


class IssuerLogoError(ConflictError):
    """The file of the issuer's logo cannot be read or drawn."""

    code = "issuer_logo_unusable"
    remedy = "Name an SVG or PNG file in that variable that the service can read, or none."


class UsageAnnexMissingError(ConflictError):
    """The document has no usage annex."""

    code = "usage_annex_missing"
    remedy = "Ask for the annex of a final invoice, where the site has USAGE_ANNEX=true."


class EInvoiceMissingError(ConflictError):
    """The document has no e-invoice."""

    code = "e_invoice_missing"
    remedy = (
        "Set E_INVOICES and what is missing, and finalize; a final document is voided and replaced."
    )


class RouteInvalidError(InvalidInputError):
    """The recipient is of another organization than the project."""

    code = "route_invalid"
    remedy = "Name a recipient of the project's own organization."

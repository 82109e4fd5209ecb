"""Refusals of exports."""

from tenants.domain.errors import InvalidInputError


class FocusVersionError(InvalidInputError):
    """The version of FOCUS does not have the dataset."""

    code = "focus_version"
    remedy = "Ask for CostAndUsage, or for version 1.4."


class FocusFileError(InvalidInputError):
    """A file cannot be read as a FOCUS dataset."""

    code = "focus_file"
    remedy = "Give a CSV in UTF-8 with a header, or a Parquet file."


class BundleError(InvalidInputError):
    """A file cannot be read as a month's bundle."""

    code = "month_bundle"
    remedy = "Give a zip that export_month, the REST API or the page Month close made."

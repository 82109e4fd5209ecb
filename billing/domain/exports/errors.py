"""Refusals of exports."""

from tenants.domain.errors import ConflictError, InvalidInputError


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


class ExportScheduleKnownError(ConflictError):
    """There is a schedule of this name."""

    code = "export_schedule_known"
    remedy = "Choose another name; a closed schedule keeps its own."


class ExportScheduleClosedError(ConflictError):
    """The schedule is closed; nothing is exported by it any more."""

    code = "export_schedule_closed"
    remedy = "Make a new schedule."


class ExportRunNotFailedError(ConflictError):
    """The run has not failed, or its files are not kept any more."""

    code = "export_run_not_failed"
    remedy = "Wait for its next attempt, or export the month anew."


class ExportPurgedError(ConflictError):
    """The files of the run are not kept any more."""

    code = "export_purged"
    remedy = "Export the month anew."

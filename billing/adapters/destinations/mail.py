"""Export files by mail: one mail for each file."""

from email.utils import make_msgid
from smtplib import SMTPException

from django.core.mail import EmailMessage

from billing.protocols import ExportPlace, OutgoingFile
from tenants.adapters.mail import reach_mail_server
from tenants.adapters.notification_mail import ATTACHED_BYTES_MAX
from tenants.domain.errors import SourceUnavailableError


class MailDestination:
    """Sends through Django's mail backend."""

    def __init__(self, *, sender: str) -> None:
        """Keep the From address."""
        self.sender = sender

    def deliver(self, file: OutgoingFile) -> None:
        """Mail a file; every attempt has the same Message-ID.

        Raises:
            SourceUnavailableError: It is too large, or the mail server does not take it.
        """
        if file.size > ATTACHED_BYTES_MAX:
            raise SourceUnavailableError("The file is too large for a mail.", reason="too_large")
        mail = EmailMessage(
            subject=f"[GPU Ledger] {file.name}",
            body=f"Export {file.schedule} of {file.month}.\n\n"
            f"File: {file.name}\nSize: {file.size} bytes\nSHA-256: {file.sha256}\n",
            from_email=self.sender,
            to=[file.address],
            headers={
                "Message-ID": make_msgid(str(file.file_id), domain="gpu-ledger"),
                "Auto-Submitted": "auto-generated",
            },
        )
        mail.attach(file.name, file.path.read_bytes(), file.content_type.partition(";")[0])
        try:
            count = mail.send()
        except (SMTPException, OSError) as error:
            raise SourceUnavailableError(
                f"The mail server did not take it: {type(error).__name__}.", reason="mail_refused"
            ) from error
        if not count:
            raise SourceUnavailableError("No mail can be sent to it.", reason="address_invalid")

    def check(self, place: ExportPlace) -> None:  # noqa: ARG002 - As the protocol.
        """Sign in at the mail server; whether it takes mail to the address shows only a mail.

        Raises:
            SourceUnavailableError: It cannot be reached, or does not admit us.
        """
        reach_mail_server()

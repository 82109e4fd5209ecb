"""Files that the API hands out."""

from typing import Final

from django.http import HttpResponse

CSV: Final = "text/csv; charset=utf-8"
PDF: Final = "application/pdf"


def attachment(content: bytes, name: str, *, kind: str) -> HttpResponse:
    """Return a file to be saved under a name, which no cache keeps."""
    return HttpResponse(
        content,
        content_type=kind,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
        },
    )

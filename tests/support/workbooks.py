"""Workbooks read back, without a library of their own."""

from io import BytesIO
from typing import Final
from xml.etree import ElementTree as ET
from zipfile import ZipFile

MAIN: Final = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


def cells(content: bytes, *, sheet: int = 1) -> list[tuple[str, str]]:
    """Return type and text of each cell below the header; the type of a number is "".

    No cell has a formula.
    """
    with ZipFile(BytesIO(content)) as book:
        root = ET.fromstring(book.read(f"xl/worksheets/sheet{sheet}.xml"))  # noqa: S314 - Our own file.
    assert root.find(f".//{MAIN}f") is None
    return [
        (cell.get("t", ""), "".join(cell.itertext()))
        for row in root.findall(f".//{MAIN}row")[1:]
        for cell in row
    ]

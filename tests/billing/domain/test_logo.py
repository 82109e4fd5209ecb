"""A logo is one SVG, whichever file the site has."""

import struct

import pytest

from billing.domain.logo import LOGO_BYTES_MAX, logo_of

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4s2I", 13, b"IHDR", 640, 200)


def test_an_svg_is_taken_as_it_is() -> None:
    text = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>'

    assert logo_of(text.encode()) == text


def test_a_png_is_embedded_at_its_size() -> None:
    logo = logo_of(PNG)

    assert 'width="640" height="200"' in logo
    assert 'href="data:image/png;base64,iVBORw0KGgo' in logo


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "neither SVG nor PNG"),
        (b"\xff\xd8\xff\xe0 JFIF", "neither SVG nor PNG"),
        (PNG[:12], "neither SVG nor PNG"),
        (b"<svgish/>", "neither SVG nor PNG"),
        (b"<svg " + b" " * LOGO_BYTES_MAX, "more than 1048576 bytes"),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        logo_of(content)

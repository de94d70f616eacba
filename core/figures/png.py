"""Rendering of a static picture as PNG. Fonts come with this package, so that no machine lacks them."""

from __future__ import annotations

from importlib.resources import files

FONT = "DejaVu Sans"
SCALE = 2.0  # as sharp as on a high-density screen or a slide


def png(svg: str) -> bytes:
    """Return the picture as PNG, with :data:`SCALE` times as many pixels in each direction.

    Letters of other scripts come from the system's fonts.
    """
    import resvg_py  # most commands draw nothing

    beside = files(__package__) / "fonts"
    fonts = [str(beside / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]
    return bytes(
        resvg_py.svg_to_bytes(svg_string=svg, zoom=SCALE, font_files=fonts, sans_serif_family=FONT, font_family=FONT)
    )

"""A static picture as PNG. Letters come from fonts beside this file, so that no machine is without them."""

from __future__ import annotations

from importlib.resources import files

FONT = "DejaVu Sans"
SCALE = 2.0  # as sharp as a dense screen or a slide has it


def png(svg: str, scale: float = SCALE) -> bytes:
    """The picture, with ``scale`` times as many pixels each way.

    Letters of other scripts come from the system's fonts.
    """
    import resvg_py  # most commands draw nothing

    beside = files(__package__) / "fonts"
    fonts = [str(beside / name) for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")]
    return bytes(
        resvg_py.svg_to_bytes(svg_string=svg, zoom=scale, font_files=fonts, sans_serif_family=FONT, font_family=FONT)
    )

"""Seconds that go down in the browser, one each second, without asking the server."""

from __future__ import annotations

from streamlit.components.v2 import component

_JS = """
const words = seconds => {
    if (seconds < 60) return `${seconds} s`;
    const [whole, rest, unit, smaller] = seconds < 3600
        ? [Math.floor(seconds / 60), seconds % 60, "min", "s"]
        : [Math.floor(seconds / 3600), Math.floor(seconds % 3600 / 60), "h", "min"];
    return rest ? `${whole} ${unit} ${String(rest).padStart(2, "0")} ${smaller}` : `${whole} ${unit}`;
};
export default function ({ data, parentElement }) {
    const shown = parentElement.querySelector("[role=timer]");
    const end = performance.now() + 1000 * data.left_s;
    const draw = () => {
        const left = Math.max(0, Math.round((end - performance.now()) / 1000));
        shown.textContent = data.before + (left ? words(left) + data.after : data.over);
    };
    draw();
    const timer = setInterval(draw, 1000);
    return () => clearInterval(timer);
}
"""
_CSS = "span { font: inherit; font-variant-numeric: tabular-nums; white-space: nowrap; }"
_shown = component("breakeven-countdown", html='<span role="timer"></span>', css=_CSS, js=_JS, isolate_styles=False)


def show(left_s: float, key: str, *, before: str = "", after: str = " left", over: str = "ending") -> None:
    """``before``, the time left in words as :func:`core.numbers.duration` has them, ``after``; ``over`` from 0 on.

    The words must be constants of the program.
    """
    _shown(key=key, data={"left_s": left_s, "before": before, "after": after, "over": over}, width="content")

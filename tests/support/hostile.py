"""Text that a stranger may put into a name: it acts on a terminal, a page, a chart, a report or a spreadsheet."""

ACTING = "\x00\x07\x08\t\n\r\x1b\x7f\x85\x9b\x9d\u061c\u200b\u200e\u2028\u2029\u202a\u202e\u2066\u2069\ufeff"
"""Characters that must reach no terminal and no page."""

MARKUP = (
    "![x](http://evil.example/x.png)",
    "[x](javascript:alert(1))",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '<a href="http://evil.example">x</a>',
    "<b>x</b>",
    "$x^2$",
    ":red[x]",
    ":material/skull:",
    "**x**",
    "`x`",
)
"""Each must be shown literally, and do nothing."""

FORGED = "FORGED VERDICT"
"""Follows a line break: it must never begin a line."""

HOSTILE = f"=1+1 \x1b[31mred\x1b]0;t\x07 {ACTING}\n{FORGED} {' '.join(MARKUP)}"
SHORT = f"=1\x1b[31m\x9b\u202e\n{FORGED} <b>x</b>![x](http://evil.example)"
"""As much of it as fits a limited length."""

PATH = "/=1/<b>x</b>/![x](y)/:red[x]/$x$"
"""Hostile text that a path may contain."""

"""Everything that a page shows is a constant of the program, a number, or went through the one function that escapes
it.

Decided from the source: an argument that Streamlit takes for Markdown may hold constants, names of constants (in
capitals), numbers with a format, words of a closed set, and calls that are listed here. All else must be wrapped in
``plain`` or ``unbroken`` (or ``written``, a table of such texts; ``cleaned`` and ``clean`` where no markup is known).
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted([*(ROOT / "pages").glob("*.py"), *(ROOT / "core" / "ui").rglob("*.py")])

MARKDOWN = {
    "markdown", "info", "warning", "error", "success", "caption", "subheader", "header", "title", "badge", "metric",
    "progress", "expander", "popover", "button", "download_button", "page_link", "segmented_control", "selectbox",
    "multiselect", "select_slider", "text_input", "number_input", "date_input", "file_uploader", "checkbox", "toggle",
    "menu_button", "radio", "pills", "write", "toast", "spinner", "status", "tabs",
}  # fmt: skip
"""Elements whose first argument, help and others of the names below Streamlit takes for Markdown."""
NAMED = {"label", "help", "text", "value", "delta", "body", "placeholder", "format_func"}
NUMBER_FIELDS = {"number_input", "date_input", "select_slider", "checkbox", "toggle"}
"""Elements whose value is no text."""
TABLES = {"table": "written", "dataframe": "cleaned"}
ESCAPED = {"plain", "unbroken", "clean", "written", "cleaned"}
NUMBERS = {"number", "duration", "percent", "byte_size", "counted", "len", "rounded", "bounded", "table_number",
           "large", "round", "checked_on"}  # fmt: skip
CLOSED = {"label", "noun", "capitalize", "upper", "__getitem__"}
"""Attributes with one of a few words of this program: a record's label, a kind's noun; and case conversions of
words.
"""
OURS = {
    "core.ui.card": {"icon"},
    "core.ui.downloads": {"file.meaning"},
    "core.ui.frontier.form": {"known[name].title", "axis.capitalize()", "choice.help", "_listed(values)"},
    "core.ui.frontier.result": {"axis", "at", "other"},
    "core.ui.hardware.form": {"meaning"},
    "core.ui.history.page": {"letter", "words"},
    "core.ui.machine": {"advice"},
    "core.ui.method_text": {"meaning", "number", "sentence", "table", "title"},
    "core.ui.navigation": {"page.link"},
    "core.ui.neighbours": {"line"},
    "core.ui.network_form": {"known[name].title", "kind.notation", "word", "choice.help"},
    "core.ui.overhead.page": {"what", "what.capitalize()"},
    "core.ui.fields": {"of"},
    "core.ui.places": {"label", "help"},
    "core.ui.method.resolution": {"duration"},
    "core.ui.study_page": {"self.kind.title", "self.button", "_share(snapshot)"},
    "core.ui.sweep.form": {"('  \\n' if len(runs) > OPEN else ' ').join(map(plain, runs))"},
    "core.ui.sweep.targets": {"of", "of_target(index)"},
}
"""Expressions by module that hold only constants of the program or numbers."""


def is_safe(node: ast.expr, ours: set[str]) -> bool:
    """Check that an expression's result can hold no unescaped text from outside."""
    match node:
        case ast.Constant():
            return True
        case ast.JoinedStr(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
            return all(is_safe(part, ours) for part in parts)
        case ast.FormattedValue(value=value, format_spec=ast.JoinedStr(values=[ast.Constant(value=str(spec))])):
            return spec[-1:] in set(",fgde%") or is_safe(value, ours)
        case ast.FormattedValue(value=value) | ast.Subscript(value=value) | ast.Lambda(body=value):
            return is_safe(value, ours)
        case ast.BinOp(op=ast.Sub()):
            return True
        case ast.IfExp(body=first, orelse=second) | ast.BinOp(left=first, right=second):
            return is_safe(first, ours) and is_safe(second, ours)
        case ast.Call(func=ast.Name(id=called)) if called in ESCAPED | NUMBERS:
            return True
        case ast.Call(func=ast.Attribute(value=between, attr="join"), args=[ast.GeneratorExp(elt=each)]):
            return is_safe(between, ours) and is_safe(each, ours)
        case ast.Call(func=ast.Attribute(value=text, attr="strip")):
            return is_safe(text, ours)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.isupper() or name in CLOSED or ast.unparse(node) in ours
    return ast.unparse(node) in ours


def unsafe(source: str, ours: set[str]) -> list[str]:
    """Return every argument that is shown and not safe, with its line."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        element = node.func.attr
        owner = ast.unparse(node.func.value)
        if element in TABLES and owner == "st":
            given = ast.unparse(node.args[0])
            shown = [] if given.startswith(f"{TABLES[element]}(") or given in ours else [node.args[0]]
        elif element in MARKDOWN and (element != "title" or owner == "st"):
            first = [] if element == "page_link" else node.args[: 2 if element == "metric" else 1]
            named = NAMED - ({"value"} if element in NUMBER_FIELDS else set())
            shown = [*first, *(word.value for word in node.keywords if word.arg in named)]
            shown = [each for each in shown if not is_safe(each, ours)]
        else:
            continue
        found += [f"line {node.lineno}, {element}: {ast.unparse(each)}" for each in shown]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_page_shows_is_ours_or_escaped(path: Path) -> None:
    module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    assert unsafe(path.read_text(encoding="utf-8"), OURS.get(module, set())) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("st.markdown(run.name)", True),
        ("st.markdown(f'**{run.name}**')", True),
        ("left.caption(str(error))", True),
        ("st.metric('Best', cell.words)", True),
        ("st.button('Go', help=why)", True),
        ("st.table(pd.DataFrame(rows))", True),
        ("st.segmented_control('Target', (0, 1), format_func=lambda i: run.target_names[i])", True),
        ("st.markdown(f'{plain(run.name)} at {batch:,}, {duration(x)}, {run.label}' + WORDS)", False),
        ("st.markdown(' '.join(plain(name) for name in names))", False),
        ("st.table(written(rows))", False),
    ],
)
def test_the_check_sees_what_it_must(source: str, found: bool) -> None:
    assert bool(unsafe(source, set())) is found

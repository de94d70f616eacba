"""The part of a form that names a network: its family, a preset or own sizes, or a file. Shared by pages."""

from __future__ import annotations

from typing import Any

import streamlit as st
from pydantic import ValidationError

from core.families import Choice, Network, families
from core.families.own import Own
from core.numbers import counted, large
from core.schema import explain
from core.ui.checks import OWN_ARCHITECTURE
from core.ui.words import plain
from core.userdata.arrays import in_words

OWN_SIZES = "Own sizes"
FIRST_FAMILY = "mlp"
FEW_WORDS = 2  # as many kinds fit beside each other in a column
MAX_UPLOAD_MB = 32
ARCHITECTURE = "form_architecture_read"
KEEP: Any = "session"  # choices survive a visit to another page


def network_fields() -> dict[str, Any]:
    """Family, preset, sizes and architecture, as :func:`core.ui.checks.make_workload` takes them."""
    known = families()
    # a network that user code makes belongs to the command line, where the user names that code
    names = [name for name, kind in known.items() if kind.choices or name == OWN_ARCHITECTURE]
    names.sort(key=lambda name: known[name].title)
    family = st.selectbox(
        "Network family", names, index=names.index(FIRST_FAMILY), format_func=lambda name: known[name].title,
        key="form_family", persist_state=KEEP,
    )  # fmt: skip
    if family == OWN_ARCHITECTURE:
        return {"family": family, "preset": None, "sizes": {}, "architecture": _architecture()}
    kind = known[family]
    preset = _preset(family, kind)
    sizes = {} if preset else own_sizes(family, kind.choices)
    return {"family": family, "preset": preset, "sizes": sizes}


def _preset(family: str, kind: type[Network]) -> str | None:
    """The chosen preset; None for sizes of one's own."""
    options = [*kind.presets, OWN_SIZES]
    usual = kind.from_choices({choice.name: choice.default for choice in kind.choices}).name
    chosen = st.selectbox(
        "Workload", options, index=options.index(usual) if usual in options else 0, key=f"form_preset_{family}",
        persist_state=KEEP, help=f"{kind.notation} The last entry lets you choose sizes of your own.",
    )  # fmt: skip
    return None if chosen == OWN_SIZES else chosen


def own_sizes(name: str, choices: tuple[Choice, ...]) -> dict[str, int | None]:
    """A field for each choice: a number, or one of its words; ``name`` tells the fields' keys from other forms'.

    None is an emptied field.
    """
    with st.grid(2, min_column_width=120, gap="small"):
        return {choice.name: _size(f"form_{name}_{choice.name}", choice) for choice in choices}


def _size(key: str, choice: Choice) -> int | None:
    if not choice.words:
        return st.number_input(
            choice.label, value=choice.default, step=1, key=key, persist_state=KEEP,
            help=f"{choice.help} {choice.low:,} to {choice.high:,}.",
        )  # fmt: skip
    values = list(range(choice.low, choice.high + 1))

    def word(value: int) -> str:
        return choice.words[value - choice.low]

    if len(values) <= FEW_WORDS:
        return st.segmented_control(
            choice.label, values, default=choice.default, required=True, format_func=word, key=key, help=choice.help,
            persist_state=KEEP,
        )  # fmt: skip
    return st.selectbox(
        choice.label, values, index=values.index(choice.default), format_func=word, key=key, help=choice.help,
        persist_state=KEEP,
    )  # fmt: skip


def _architecture() -> Network | str | None:
    """The network read from an uploaded file, or the sentence that refused it; it outlives a visit elsewhere."""
    st.file_uploader(
        "Keras JSON (model.to_json()) or a .keras file", type=["json", "keras"], key="form_architecture",
        on_change=_read, max_upload_size=MAX_UPLOAD_MB,
        help="Only the description of the layers is read: built-in layers, with fresh weights, all of them trained, "
        "also where the file froze some. No code is run and no weights are opened; for a .keras file above the limit, "
        "model.to_json() is enough.",
    )  # fmt: skip
    network: Network | str | None = st.session_state.get(ARCHITECTURE)
    if isinstance(network, Network):
        st.caption(plain(_described(network)))
    return network


def _described(network: Network) -> str:
    layers, outputs = len(network.layers), network.classes
    return (
        f"{network.name}: {counted(layers, 'layer')}, {large(network.parameters)} "
        f"parameters, input {in_words(network.input_shape)}, {counted(outputs, 'output')}."
    )


def _read() -> None:
    """Read a file as soon as it is there, once; taking it away forgets the network."""
    upload = st.session_state.get("form_architecture")
    if upload is None:
        st.session_state.pop(ARCHITECTURE, None)
        return
    try:
        st.session_state[ARCHITECTURE] = Own.from_file(upload.getvalue(), upload.name)
    except ValidationError as error:
        st.session_state[ARCHITECTURE] = explain(error)
    except ValueError as error:
        st.session_state[ARCHITECTURE] = str(error)

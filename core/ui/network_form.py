"""Form fields that name a network: its family, a preset or own sizes, or a file. Shared by pages."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import streamlit as st
from pydantic import ValidationError

from core.base.numbers import counted, large
from core.base.schema import explain
from core.base.text import clean
from core.networks.families import Choice, Network, families
from core.networks.families.own import Own
from core.ui.checks import OWN_ARCHITECTURE, size_field
from core.ui.places import KEEP, Places
from core.ui.words import plain
from core.userdata.arrays import in_words

FIRST_FAMILY = "mlp"
FEW_WORDS = 2  # as many options fit beside each other in a column
MAIN = 2  # sizes beside the family; the others go wherever the page has room
MAX_UPLOAD_MB = 32
ARCHITECTURE = "form_architecture_read"
PRESETS_HELP = "Puts this network's sizes into the fields, ready to be changed."


def network_fields(wrong: Places, rest: Any = None) -> dict[str, Any]:
    """Draw family, sizes and architecture; return arguments of :func:`core.ui.checks.checked_workload`.

    ``rest`` is the place for all sizes except the family's two main ones; by default they stand below those.
    """
    known = families()
    # networks of user code belong to the command line, where the user names that code
    names = [name for name, kind in known.items() if kind.choices or name == OWN_ARCHITECTURE]
    names.sort(key=lambda name: known[name].title)
    heading = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
    heading.markdown("**Network**", width="content")
    with st.grid(1 + MAIN, min_column_width=130, gap="small"):
        family = st.selectbox(
            "Family", names, index=names.index(FIRST_FAMILY), format_func=lambda name: known[name].title,
            key="form_family", persist_state=KEEP,
        )  # fmt: skip
        if family == OWN_ARCHITECTURE:
            return {"family": family, "preset": None, "sizes": {}, "architecture": _architecture(wrong)}
        kind = known[family]
        with heading:
            st.menu_button(
                "Network presets", list(kind.presets), key=f"form_networks_{family}", on_click=_put_preset,
                args=(family,), icon=":material/auto_awesome_motion:", help=f"{PRESETS_HELP} {kind.notation}",
            )  # fmt: skip
        if (named := st.session_state.get(_named(family))) is not None:
            return {"family": family, "preset": _as_named(family, named), "sizes": {}}
        main, others = main_sizes(kind.choices)
        sizes = {choice.name: _size(f"form_{family}_{choice.name}", choice, wrong) for choice in main}
    with nullcontext() if rest is None else rest:
        sizes |= size_fields(family, others, wrong)
    wrong.here("workload")
    return {"family": family, "preset": None, "sizes": sizes}


def usual_network() -> Network:
    """Return the network in the untouched fields."""
    kind = families()[FIRST_FAMILY]
    return kind.from_choices({choice.name: choice.default for choice in kind.choices})


def main_sizes(choices: tuple[Choice, ...]) -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
    """Return depth and width, or the first two sizes of a family without them; and the others."""
    main = tuple(choice for choice in choices if choice.name in ("depth", "width")) or choices[:MAIN]
    return main, tuple(choice for choice in choices if choice not in main)


def family_of(network: Network) -> str:
    return next(name for name, kind in families().items() if isinstance(network, kind))


def put_network(network: Network) -> None:
    """Set the fields to that network; by its name if it has no sizes to choose. Not for one from a file."""
    sizes, family = network.as_choices(), family_of(network)
    st.session_state["form_family"] = family
    for name, value in (sizes or {}).items():
        st.session_state[f"form_{family}_{name}"] = value
    st.session_state[_named(family)] = None if sizes else network.name


def changed_sizes(family: str) -> list[str]:
    """Return the non-main sizes that differ from their defaults, in words."""
    changed = []
    for choice in main_sizes(families()[family].choices)[1]:
        value = st.session_state.get(f"form_{family}_{choice.name}", choice.default)
        if value != choice.default:
            words = choice.words[value - choice.low] if choice.words and value is not None else value
            changed.append(f"{choice.label} {words}")
    return [] if st.session_state.get(_named(family)) is not None else changed


def _named(family: str) -> str:
    return f"form_named_{family}"


def _put_preset(family: str) -> None:
    put_network(families()[family].from_name(st.session_state[f"form_networks_{family}"]))


def _as_named(family: str, name: str) -> str:
    """Draw a network that is fixed by its name, with a button back to own sizes."""
    st.text_input(
        "Network", value=clean(name), disabled=True, key=f"form_shown_{name}", help="Its sizes go with its name."
    )
    with st.container(vertical_alignment="bottom", height="stretch"):
        st.button("Own sizes", icon=":material/tune:", key=f"form_own_{family}",
                  on_click=st.session_state.pop, args=(_named(family),))  # fmt: skip
    return name


def size_fields(name: str, choices: tuple[Choice, ...], wrong: Places) -> dict[str, int | None]:
    """Draw a field per choice, a number or one of its words; None is an emptied field.

    ``name`` distinguishes the keys from those of other forms.
    """
    with st.grid(3, min_column_width=120, gap="small"):
        return {choice.name: _size(f"form_{name}_{choice.name}", choice, wrong) for choice in choices}


def _size(key: str, choice: Choice, wrong: Places) -> int | None:
    if not choice.words:
        help = f"{choice.help} {choice.low:,} to {choice.high:,}."
        number: int | None = wrong.number(size_field(choice), choice.label, choice.default, key, help)
        return number
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


def _architecture(wrong: Places) -> Network | str | None:
    """Return the network of an uploaded file, or the sentence that refused it; kept across visits to other pages."""
    with st.container():
        st.file_uploader(
            "Keras JSON (model.to_json()), a .keras file or an .h5 file", type=["json", "keras", "h5", "hdf5"],
            key="form_architecture", on_change=_read, max_upload_size=MAX_UPLOAD_MB,
            help="Only the description of the layers is read: built-in layers, with fresh weights, all of them "
            "trained, also where the file froze some. No code is run and no weights are opened; for a file above the "
            "limit, model.to_json() is enough. The page's address cannot hold it.",
        )  # fmt: skip
        network: Network | str | None = st.session_state.get(ARCHITECTURE)
        if isinstance(network, Network):
            st.caption(plain(_described(network)))
        wrong.here("workload")
    return network


def _described(network: Network) -> str:
    layers, outputs = len(network.layers), network.classes
    return (
        f"{network.name}: {counted(layers, 'layer')}, {large(network.parameters)} "
        f"parameters, input {in_words(network.input_shape)}, {counted(outputs, 'output')}."
    )


def _read() -> None:
    """Read a file once, as soon as it is uploaded; removing it forgets the network."""
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

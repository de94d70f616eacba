"""Reader of a user's own architecture from an untrusted file: Keras JSON, or the config.json in a .keras file.

Nothing from the file is executed, unpickled, unpacked to disk or deserialised by Keras: its text is parsed as plain
data and turned into a :class:`core.architecture.graph.Graph` of layers on the allow-list
(:data:`core.architecture.rules.RULES`), which is built with fresh weights.

Dropped, since a step's time does not depend on them: weights, initialisers, regularisers, constraints, seeds, dtypes
(the target's precision decides), how the model was compiled, and names of nested models, whose layers are taken one by
one. Also dropped, and worth knowing: ``trainable`` and ``training=…``. The whole network is measured as trained, even
if the file froze a part of it. A layer used both inside and outside a nested model appears in the file twice, and is
two layers here, as it is for Keras when it loads the file.
"""

from __future__ import annotations

from core.architecture import archive
from core.architecture.counts import ArchitectureError
from core.architecture.flatten import graph_of
from core.architecture.graph import Graph
from core.architecture.keras_json import spec_of
from core.architecture.strict_json import parse
from core.architecture.text import checked

HDF5 = b"\x89HDF\r\n\x1a\n"
ACCEPTED = "accepted are the text of model.to_json() and .keras files"


def read_architecture(data: bytes, filename: str = "", *, public: bool = True) -> Graph:
    """Return the network described by a file.

    ``public`` as in :func:`core.architecture.text.checked`. Raises UserError, which names the faulty layer, if there is
    one.
    """
    if not data.strip():
        raise ArchitectureError(f"The file is empty; {ACCEPTED}.")
    if data.startswith(HDF5):
        raise ArchitectureError(f"The file is HDF5, which is never opened; {ACCEPTED}.")
    if data.startswith(archive.SIGNATURE) or filename.lower().endswith(".keras"):
        data = archive.config_json(data)
    model = parse(data)
    if not isinstance(model, dict) or "class_name" not in model:
        raise ArchitectureError(f"The file describes no Keras model; {ACCEPTED}.")
    return checked(graph_of(spec_of(model)), public=public)

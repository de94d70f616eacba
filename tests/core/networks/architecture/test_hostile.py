"""Files made to harm: each becomes a network within the limits or one sentence, in bounded time and memory."""

import json
import random
import struct
import subprocess
import sys
import zipfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.networks.architecture.counts import count
from core.networks.architecture.options import MAX_LAYERS, MAX_PARAMETERS
from core.networks.architecture.read import MAX_DIRECTORY_BYTES, MAX_MEMBERS, read_architecture
from core.networks.architecture.strict_json import MAX_BYTES, MAX_NESTING
from core.networks.architecture.text import MAX_CHARACTERS, dump, load
from simulated.keras_files import archive, branches, called, functional, layer, sequential, source, tensor, text

VALID = text(branches())
DENSE = layer("Dense", "out", "image", units=3)


def outcome(data: bytes, filename: str = "") -> str | None:
    """Return the sentence of a refusal; None for a network, after checking that it is within the limits."""
    try:
        graph = read_architecture(data, filename)
    except ValueError as error:
        sentence = str(error)
        assert sentence.endswith(".")
        assert sentence.isprintable()
        assert 10 < len(sentence) < 1_000
        return sentence
    assert 1 <= len(graph.layers) <= MAX_LAYERS
    assert sum(each.parameters for each in count(graph)) <= MAX_PARAMETERS
    assert load(dump(graph)) == graph
    return None


def nodes_of(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a tree of JSON."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(found for key, value in items for found in nodes_of(value, (*path, key)))]


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


PATHS = nodes_of(branches())[1:]
NASTY: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, 10**24, 0.5, -1e300, "", "Lambda", "Functional", "Sequential", "InputLayer",
    "conv", "image", "\u0000\n\u202e", "../../etc/passwd", "a" * 5_000, [], {}, [[]], [None], [0, 0], [10**9, 10**9],
    {"class_name": "Lambda", "config": {"code": "4wEAAAA="}}, {"class_name": "__tuple__", "items": [1, {}]},
    {"class_name": "__tuple__"}, tensor("conv"), tensor("sum", 10**6), [tensor("out")], ["conv", 0, 0], ["conv", -1, 0],
    ["conv", True, None], layer("Dense", "conv", units=2), sequential(layer("ReLU", "r")),
]  # fmt: skip
WORDS = ["class_name", "config", "layers", "name", "inbound_nodes", "args", "kwargs", "module", "input_layers"]
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 2**65), st.floats(), st.text(max_size=8), st.sampled_from(NASTY),
    st.sampled_from(["Dense", "Sequential", "Functional", "InputLayer", "Bidirectional", "__keras_tensor__"]),
)  # fmt: skip
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=5)), inner, max_size=6),
    ),
    max_leaves=30,
)


@settings(max_examples=300)
@given(st.data())
def test_a_valid_file_with_values_replaced_removed_or_doubled(data: st.DataObject) -> None:
    tree = branches()
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(PATHS))
        try:
            parent, key = at(tree, path[:-1]), path[-1]
            old = parent[key]
        except (KeyError, IndexError, TypeError):
            continue  # removed by an earlier change
        if isinstance(parent, str):
            continue
        match data.draw(st.sampled_from(["replace", "grow", "remove", "double", "move"])):
            case "replace":
                parent[key] = data.draw(st.one_of(st.sampled_from(NASTY), TREES))
            case "grow" if isinstance(old, int) and not isinstance(old, bool):
                parent[key] = data.draw(st.integers(-(2**40), 2**70))
            case "remove":
                del parent[key]
            case "double" if isinstance(parent, list):
                parent.insert(key, json.loads(json.dumps(old)))
            case _:
                parent[key] = at(branches(), data.draw(st.sampled_from(PATHS)))
    outcome(json.dumps(tree).encode())


@settings(max_examples=300)
@given(TREES)
def test_any_tree_of_json(tree: Any) -> None:
    outcome(json.dumps(tree).encode())
    outcome(json.dumps({"class_name": "Sequential", "config": {"name": "m", "layers": tree}}).encode())
    refusal = outcome(json.dumps({"class_name": "Functional", "config": tree}).encode())
    assert refusal is not None


@settings(max_examples=150)
@given(st.binary(max_size=300), st.integers(0, 2**32), st.sampled_from(["", "a.json", "a.keras"]))
def test_cut_and_flipped_bytes(noise: bytes, seed: int, filename: str) -> None:
    outcome(noise, filename)
    generator = random.Random(seed)
    for whole in (VALID, archive(VALID), archive(VALID, packing=zipfile.ZIP_DEFLATED)):
        outcome(whole[: generator.randrange(len(whole))], filename)
        flipped = bytearray(whole)
        for _ in range(generator.randrange(1, 6)):
            flipped[generator.randrange(len(flipped))] = generator.randrange(256)
        outcome(bytes(flipped), filename)


@settings(max_examples=200)
@given(TREES)
def test_any_text_of_an_architecture(tree: Any) -> None:
    valid = json.loads(dump(read_architecture(VALID)))
    for data in (tree, valid | {"layers": tree}, valid | {"input": tree}, valid | {"layers": [*valid["layers"], tree]}):
        refusal = ""
        try:
            load(json.dumps(data))
        except ValueError as error:
            refusal = str(error)
        assert refusal.isprintable()
        assert refusal.endswith(".") == bool(refusal)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "empty"),
        (b"\x89HDF\r\n\x1a\n" + b"x" * 50, "The HDF5 file is damaged"),
        (b"\x80\x04\x95" + b"cos\nsystem\n", "UTF-8|JSON"),
        (b"{" * 100_000, "deeper"),
        (b'{"a":' * 59 + b"[[" + b"]]" + b"}" * 59, "deeper"),
        (b'"' + b'\\"' * 900_000, "JSON"),
        (b'{"class_name": "Sequential", "class_name": "Lambda"}', "key “class_name” twice"),
        (b'{"class_name": NaN}', "NaN, which is no number|“NaN”, which is no number"),
        (b'{"class_name": 1e999}', "too large"),
        (b'{"class_name": ' + b"9" * 1_000_000 + b"}", "1,000,000 digits"),
        (b" " * (MAX_BYTES + 1), "empty|too large"),
        (b"[" + b"1," * MAX_BYTES, "too large"),
    ],
)  # fmt: skip
def test_texts_that_are_no_model(data: bytes, sentence: str) -> None:
    refusal = outcome(data)
    assert refusal is not None
    assert any(part in refusal for part in sentence.split("|"))


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("config", "output_layers"), [], "“net” (Functional): its output_layers are missing."),
        (("config", "layers", 1, "inbound_nodes", 0, "args"), [None], "“conv” (Conv2D): a call of it takes no input."),
        (("config", "layers", 1, "inbound_nodes", 0, "args"), [3], "“conv” (Conv2D): it is called with a number;"),
    ],
)
def test_ends_and_calls_that_lead_nowhere(path: tuple[Any, ...], value: Any, sentence: str) -> None:
    tree = branches()
    at(tree, path[:-1])[path[-1]] = value
    assert sentence in str(outcome(json.dumps(tree).encode()))


def test_nesting_up_to_the_limit_is_read() -> None:
    model: dict[str, Any] = sequential(source(4), DENSE)
    for number in range(8):
        model = sequential(model, name=f"m{number}")
    assert outcome(text(model)) is None
    for number in range(MAX_NESTING):
        model = sequential(model, name=f"n{number}")
    assert "deeper" in str(outcome(text(model)))


def test_models_called_over_and_over_cost_no_more_than_allowed() -> None:
    """Call in each of 12 models the one inside it 10 times: 10 ** 12 layers."""
    model = sequential(layer("ReLU", "r"), name="m0")
    for number in range(1, 13):
        inner = {
            **model,
            "name": "inner",
            "inbound_nodes": [called("in")] + [called(tensor("inner", i)) for i in range(9)],
        }
        model = functional(source(4, name="in"), inner, name=f"m{number}", output_layers=[["inner", 9, 0]])
    assert "more than" in str(outcome(text(model)))
    empty = functional(source(4, name="in"), name="m0", output_layers=[["in", 0, 0]])
    for number in range(1, 13):
        inner = {**empty, "name": "inner", "inbound_nodes": [called("in")] * 50}
        empty = functional(source(4, name="in"), inner, name=f"m{number}", output_layers=[["in", 0, 0]])
    assert "more than" in str(outcome(text(empty)))


def test_too_many_layers_and_parameters_and_a_text_longer_than_any_plan_are_refused() -> None:
    many = [layer("ReLU", f"r{i}") for i in range(MAX_LAYERS + 1)]
    assert f"1 to {MAX_LAYERS}" in str(outcome(text(sequential(source(4), *many))))
    wide = [layer("Dense", f"d{i}", units=2**30) for i in range(3)]
    assert outcome(text(sequential(source(2**20), *wide))) is not None
    with pytest.raises(ValueError, match="at most 500,000"):
        load("[" * (MAX_CHARACTERS + 1))


def bomb(declared: int, packed: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a .keras file whose directory declares another size than its member has."""
    data = bytearray(archive(packed, packing=method))
    start = data.rfind(b"PK\x01\x02")  # the last member is config.json
    struct.pack_into("<I", data, start + 24, declared)
    return bytes(data)


def test_archives_that_lie_about_sizes() -> None:
    spaces = VALID + b" " * (50 * MAX_BYTES)
    for data in (archive(spaces, packing=zipfile.ZIP_DEFLATED), bomb(len(VALID), spaces), bomb(2**32 - 2, VALID)):
        assert len(data) < 200_000
        assert outcome(data, "bomb.keras") is not None


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_packed_as_keras_never_packs(packing: int) -> None:
    assert "packed in a" in str(outcome(archive(VALID, packing=packing)))


def test_archives_with_a_strange_directory() -> None:
    many = archive(VALID, {f"m{i}": b"" for i in range(MAX_MEMBERS)})
    assert "members" in str(outcome(many))
    named = archive(VALID, {"x" * 60_000 + str(i): b"" for i in range(MAX_DIRECTORY_BYTES // 60_000 + 1)})
    assert "members" in str(outcome(named))
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = archive(VALID, {"config.json": VALID})
    assert "config.json 2 times" in str(outcome(twice))
    assert "config.json 0 times" in str(outcome(archive(VALID).replace(b"config.json", b"../fig.json")))
    encrypted = bytearray(archive(VALID))
    encrypted[encrypted.rfind(b"PK\x01\x02") + 8] |= 1
    assert "encrypted" in str(outcome(bytes(encrypted)))
    zip64 = archive(VALID)
    end = zip64.rfind(b"PK\x05\x06")
    assert "ZIP64" in str(outcome(zip64[:end] + b"PK\x06\x07" + b"\0" * 16 + zip64[end:]))


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from core.networks.architecture.read import read_architecture
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for data in {files}:
    try:
        read_architecture(data())
    except ValueError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
FILES = """(
    lambda: b'[' + b'[],' * 660_000 + b'[]]',
    lambda: b'{"class_name":"Sequential","config":{"layers":[' + b'{},' * 600_000 + b'{}]}}',
    lambda: b'{"class_name":"Sequential","config":{"layers":[' + b','.join(
        b'{"class_name":"ReLU","config":{"name":"%d"}}' % i for i in range(40_000)) + b']}}',
    lambda: b'{"class_name":"Functional","config":{"input_layers":[' + b'["a",0,0],' * 150_000 + b'["a",0,0]],'
        b'"output_layers":["a",0,0],"layers":[{"class_name":"ReLU","config":{"name":"a"}}]}}',
    lambda: b'{"class_name":"Functional","config":{"input_layers":["a",0,0],"output_layers":["b",0,0],"layers":['
        b'{"class_name":"InputLayer","config":{"name":"a","batch_shape":[null,4]}},{"class_name":"Add","config":'
        b'{"name":"b"},"inbound_nodes":[[' + b'["a",0,0],' * 150_000 + b'["a",0,0]]]}]}}',
    lambda: ('{' + ','.join(f'"{i}":0' for i in range(150_000)) + '}').encode(),
)"""


def test_the_costliest_files_take_seconds_and_little_memory() -> None:
    code = LIMITED.format(files=FILES)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 1_000_000_000

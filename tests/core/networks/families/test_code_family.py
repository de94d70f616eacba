"""A network built by a user's own code: its name, refusals, and that reading it imports nothing."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace as Fake
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.networks.families import LayerCount, families, network_from_dict
from core.networks.families.code import (
    MAX_COUNT,
    Code,
    CodeError,
    call_entry,
    check_entry,
    refuse_code,
    refuse_modules_of,
    shapes_of,
)
from core.networks.families.mlp import Mlp
from core.rounds.plan import SweepPlan
from core.workload.spec import Target, Workload

NAME = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)


def make_code(**changed: Any) -> Code:
    values = {
        "entry": "train.models:make", "folder": "/home/someone/project", "sample_shape": (12,), "tokens": 50,
        "outputs": 5, "positions": (12,), "logits": False,
        "counts": (LayerCount("embedding", 400, 0, 0, 0, 96), LayerCount("dense", 45, 768, 768, 700, 60, 4)),
    }  # fmt: skip
    return Code.model_validate(values | changed)


def test_it_is_a_family_that_says_what_was_described_and_travels_in_a_plan() -> None:
    code = make_code()
    assert families()["code"] is Code
    assert network_from_dict(json.loads(code.model_dump_json())) == code
    plan = SweepPlan(workload=Workload(network=code), targets=(Target(), Target(threads=1)), batches=(1, 8))
    again = SweepPlan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert hash(again.workload) == hash(plan.workload)
    assert plan.title.startswith("train.models:make (training, adam)")
    assert (code.name, code.input_shape, code.classes) == ("train.models:make", (12,), 5)
    assert (code.vocabulary, code.label_shape, code.from_logits) == (50, (12,), False)
    assert (code.parameters, code.activations) == (445, 160)
    assert (code.flops_per_sample(False), code.flops_per_sample(True)) == (768, 768 + 768 + 700)


@given(st.lists(NAME, min_size=1, max_size=4).filter(lambda names: names[0] != "core"), NAME)
def test_a_function_is_named_by_its_package_and_module(path: list[str], function: str) -> None:
    entry = f"{'.'.join(path)}:{function}"
    assert check_entry(entry) == entry
    dotted = entry.replace(":", ".")
    for wrong in (f"{entry} ", f"{entry}()", f".{entry}", f"{entry}:x", f"/{entry}", dotted, f"ä{entry}"):
        with pytest.raises(CodeError, match=r"package\.module:function"):
            check_entry(wrong)


def test_breakevens_own_package_hides_one_of_the_same_name() -> None:
    with pytest.raises(CodeError, match="Breakeven's own package"):
        check_entry("core.models:make")
    assert check_entry("corelib:make") == "corelib:make"


@pytest.mark.parametrize(
    "changed",
    [
        {"entry": "os.system"},
        {"entry": "a:b" + "c" * 200},
        {"folder": "project"},
        {"folder": "/a\nb"},
        {"sample_shape": ()},
        {"sample_shape": (0,)},
        {"sample_shape": (2**40,)},
        {"tokens": 0},
        {"outputs": 0},
        {"counts": ()},
        {"counts": ({"name": "x", "parameters": -1} | dict.fromkeys(("forward_flops", "activations"), 0),)},
        {"counts": (LayerCount("x", 0, MAX_COUNT + 1, 0, 0, 0),)},
        {"counts": (LayerCount("x", 0, 0, 0, 0, 0, -1),)},
        {"counts": (LayerCount("x\n", 0, 0, 0, 0, 0),)},
        {"surprise": 1},
    ],
    ids=str,
)
def test_what_no_worker_describes_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        make_code(**changed)


@pytest.mark.parametrize("folder", ["/srv/net", "C:\\Users\\someone\\net"])
def test_a_run_from_another_system_can_be_read(folder: str) -> None:
    assert make_code(folder=folder).folder == folder


def test_only_code_is_refused_where_nobody_asked_for_it_and_neither_a_name_nor_sizes_make_one() -> None:
    refuse_code(Mlp.from_name("784-128-10"))
    with pytest.raises(CodeError) as caught:
        refuse_code(make_code())
    assert "--model train.models:make" in str(caught.value)
    with pytest.raises(ValueError, match="--model"):
        Code.from_name("train.models:make")
    with pytest.raises(ValueError, match="--model"):
        Code.from_choices({})


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Yield a folder of modules; what is imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_the_folder_goes_before_installed_packages(modules: Path) -> None:
    (modules / "colorsys_of_mine.py").write_text("def make():\n    return 'mine'\n")
    assert call_entry("colorsys_of_mine:make", str(modules)) == "mine"


@pytest.mark.parametrize(
    ("source", "entry", "words"),
    [
        ("", "missing:make", "There is no module “missing” in {folder} or among the installed packages."),
        ("", "mine.deeper:make", "There is no module “mine.deeper”"),
        ("import surely_not_there", "mine:make", "No module named 'surely_not_there' (mine.py, line 1)."),
        ("x = (", "mine:make", "Importing mine failed: SyntaxError: '(' was never closed"),
        ("raise SystemExit", "mine:make", "Importing mine failed: SystemExit (mine.py, line 1)."),
        ("", "mine:make", "The module “mine” has nothing called “make”."),
        ("make = 3", "mine:make", "has no function, but other data, called “make”."),
        ("def make(units): ...", "mine:make", "called without arguments: TypeError: make() missing 1 required"),
        ("def make():\n    raise KeyError('a\\nb')", "mine:make", "arguments: KeyError: 'a\\nb' (mine.py, line 2)."),
        ("def make():\n    raise ValueError('first\\nsecond')", "mine:make", "ValueError: first (mine.py, line 2)."),
        ("import sys\ndef make():\n    sys.exit(3)", "mine:make", "SystemExit: 3 (mine.py, line 3)."),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_a_persons_code_is_told_in_a_sentence(
    modules: Path, source: str, entry: str, words: str
) -> None:
    (modules / "mine.py").write_text(source)
    with pytest.raises(CodeError) as caught:
        call_entry(entry, str(modules))
    assert words.format(folder=modules) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


class Model:
    def __init__(self, inputs: list[tuple[int | None, ...]], outputs: list[tuple[int | None, ...]]) -> None:
        self.inputs = [Fake(shape=(None, *shape)) for shape in inputs]
        self.outputs = [Fake(shape=(None, *shape)) for shape in outputs]


KERAS = Fake(Model=Model, __version__="3.15.1")


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, "a:b returned nothing; it must return a keras.Model of Keras 3.15.1."),
        ("text", "a:b returned builtins.str;"),
        (Model([], []), "no known shape of input"),
        (Model([(3,)], [(3,), (4,)]), "must have one input and one output; it has 1 and 2."),
        (Model([(None, 3)], [(3,)]), "The input of a:b has shape (?, 3) a sample"),
        (Model([(3,)], [(None, 4)]), "The output of a:b has shape (?, 4) a sample"),
        (Model([(3,)], [()]), "The output of a:b has shape (one number) a sample"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_model_has_one_input_and_one_output_of_known_sizes_or_is_refused_with_a_sentence(
    model: Any, words: str
) -> None:
    with pytest.raises(CodeError) as caught:
        shapes_of(KERAS, model, "a:b")
    assert words in str(caught.value)
    assert shapes_of(KERAS, Model([(28, 28, 1)], [(10,)]), "a:b") == ((28, 28, 1), (10,))


@pytest.mark.parametrize(
    ("own", "other", "file", "refused"),
    [
        ("a", "b", "a/net.py", False), ("a", "b", "b/net.py", True), ("a/src", "b", "a/lib/net.py", False),
        ("a", "b", "c/net.py", False), ("a", "a/old", "a/net.py", False), ("a", "a/old", "a/old/net.py", True),
        ("a/old", "a", "a/old/net.py", False), ("a/old", "a", "a/net.py", True),
    ],
)  # fmt: skip
def test_a_module_of_another_checkout_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, other: str, file: str, refused: bool
) -> None:
    """Check both nestings, since either checkout may lie inside the other."""
    monkeypatch.setitem(sys.modules, "of_a_checkout", Fake(__file__=str(tmp_path / file)))
    with pytest.raises(CodeError, match="imported of_a_checkout from") if refused else nullcontext():
        refuse_modules_of(str(tmp_path / other), str(tmp_path / own))

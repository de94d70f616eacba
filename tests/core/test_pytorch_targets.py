"""Networks for targets of native PyTorch; others are refused in the plan, before anything starts."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import ValidationError

from core.cli.model_code import network_from_code
from core.cli.networks import network_flags, network_of
from core.networks.families import LayerCount, network_from_name
from core.networks.families.code import Code, CodeError, is_torch_module, shapes_of
from core.rounds.plan import SweepPlan
from core.worker.process import worker_environment
from core.worker.protocol import Describe, Described
from core.workload.spec import Target, Workload

NATIVE = Target(framework="pytorch", threads=1)
DESCRIBED = Described(
    name="Net", input_shape=(8,), classes=3, layers=(vars(LayerCount("out", 27, 48, 48, 48, 3)),)
)  # fmt: skip


def made(framework: str) -> Code:
    return DESCRIBED.network("net:make", str(Path.cwd()), framework)


def plan(network: Any, *targets: Target) -> SweepPlan:
    return SweepPlan(workload=Workload(network=network), targets=targets, batches=(1, 8))


def test_targets_of_native_pytorch_are_compared_with_each_other() -> None:
    whole = plan(made("pytorch"), NATIVE, NATIVE.model_copy(update={"execution": "compile"}))
    assert SweepPlan.model_validate_json(whole.model_dump_json()) == whole
    assert made("torch").returns == made("tensorflow").returns == "keras"


def test_a_module_goes_with_no_other_target() -> None:
    with pytest.raises(ValidationError, match="only framework=pytorch runs"):
        plan(made("pytorch"), NATIVE, Target(framework="torch"))


@pytest.mark.parametrize("network", [network_from_name("784-128-10"), made("tensorflow")], ids=["preset", "keras"])
def test_native_pytorch_goes_with_no_other_network(network: Any) -> None:
    with pytest.raises(ValidationError, match="framework=torch runs"):
        plan(network, NATIVE)


def test_cuda_graphs_are_for_gpus() -> None:
    with pytest.raises(ValidationError, match="choose compile"):
        Target(framework="pytorch", execution="reduce-overhead")
    assert Target(framework="pytorch", device="gpu:0", execution="reduce-overhead").execution == "reduce-overhead"


@pytest.mark.parametrize(
    ("targets", "asked"),
    [
        ((), "cpu"),
        (("cpu,framework=torch", "gpu:0"), "cpu"),
        (("gpu:0,framework=pytorch", "cpu,framework=pytorch,threads=1"), "cpu,framework=pytorch"),
        (("cpu,framework=pytorch,python=/opt/torch/bin/python",), "cpu,framework=pytorch,python=/opt/torch/bin/python"),
    ],
)
def test_a_function_is_described_where_its_targets_will_run_it(
    targets: tuple[str, ...], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    class Describer:
        def ask(self, request: Describe, _: float) -> Described:
            assert request.entry == "net:make"
            return DESCRIBED

        def close(self) -> None:
            seen.append("closed")

    def launch(starting: tuple[Target, ...], *_: object, **__: object) -> tuple[Describer, ...]:
        seen.extend(map(str, starting))
        return (Describer(),)

    monkeypatch.setattr("core.worker.process.launch_processes", launch)
    network = network_from_code("net:make", None, targets)
    assert seen == [asked, "closed"]
    assert isinstance(network, Code)
    assert network.returns == ("pytorch" if "pytorch" in asked else "keras")


@pytest.mark.parametrize(
    ("asked", "targets"),
    [
        ({"targets": ("cpu", "gpu:0")}, ("cpu", "gpu:0")),
        ({"target": "cpu,framework=pytorch"}, ("cpu,framework=pytorch",)),
        ({"target": None}, ()),
        ({}, ()),
    ],
)
def test_every_command_says_which_targets_will_run_a_function(
    asked: dict[str, Any], targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("core.cli.model_code.network_from_code", lambda *given: seen.append(given))
    network_of(dict.fromkeys(network_flags()) | {"model": "net:make"} | asked)
    assert seen == [("net:make", None, targets)]


def test_keras_is_told_its_backend_by_the_environment() -> None:
    backends = {name: worker_environment(Target(framework=name))["KERAS_BACKEND"] for name in ("torch", "tensorflow")}
    assert backends == {"torch": "torch", "tensorflow": "tensorflow"}


def test_a_module_of_pytorch_is_known_without_importing_it() -> None:
    base = type("Module", (), {"__module__": "torch.nn.modules.module"})
    module = type("Own", (base,), {"__module__": "net"})()
    keras = type("Functional", (base,), {"__module__": "keras.src.models.functional"})()
    assert is_torch_module(module)
    assert is_torch_module((module, None, None))
    assert not any(map(is_torch_module, (keras, None, (), [], 7, object())))
    fake = ModuleType("keras")
    fake.Model, fake.__version__ = object, "3"  # type: ignore[attr-defined]
    with pytest.raises(CodeError, match="targets of framework=pytorch"):
        shapes_of(fake, module, "net:make")
    assert "torch" not in sys.modules

"""Every benchmark still fits the code that it measures: it is imported, and its help lists its flags."""

import importlib
import pkgutil

import pytest

import benchmarks

NAMES = [info.name for info in pkgutil.iter_modules(benchmarks.__path__)]
LOADS_A_FRAMEWORK = ("fidelity", "noise_scale", "record_applications")
PARTS = (
    "real",
    "alternating",
    "server",
    "published",
    "hardware_fit",
    "hardware_cv",
    "hardware_classes",
    "evidence",
    "torch_network",
    "busy_table",
    "equal_server",
    "neighbours",
    "page_use",
)  # used by others


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.tensorflow) if n in LOADS_A_FRAMEWORK else n for n in NAMES]
)
def test_a_benchmark_can_be_asked_for_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    if name in PARTS:
        return
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == 0
    assert "usage" in capsys.readouterr().out

"""The file of a self-check: read back within limits, and without private data."""

import getpass
import json
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.base.evidence import Environment, Gpu
from core.base.schema import UserError
from core.base.text import json_text
from core.hardware.host_record import HostStudy
from core.studies.selfcheck.checks import run_checks
from core.studies.selfcheck.export import MAX_FILE_BYTES, floor_lines, read_self_check, self_check_data, self_check_text
from core.studies.selfcheck.record import HOLDS, LACKS, MachineFacts, SelfCheck, anonymous
from core.worker.protocol import CellFailed
from simulated.commands import holds
from simulated.selfchecks import GPU, Device

HOST, USER, HOME = "rechenknecht.example.org", "margarete", "/home/margarete"
UUID = "GPU-5f3a1c9e-8a0b-4c1d-9e2f-0123456789ab"


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set names of machine and user that a test can search for."""
    monkeypatch.setattr(platform, "node", lambda: HOST)
    monkeypatch.setattr(getpass, "getuser", lambda: USER)
    monkeypatch.setenv("HOME", HOME)


def written(record: SelfCheck, path: Path) -> Path:
    path.write_text(json_text(self_check_data(record, run_checks(record))))
    return path


def test_it_is_read_back_as_it_was(tmp_path: Path) -> None:
    record = Device(GPU).check()
    again, checks = read_self_check(written(record, tmp_path / "check.json"))
    assert again == record
    assert checks == run_checks(record)
    (tmp_path / "bare.json").write_text(record.to_json())
    assert read_self_check(tmp_path / "bare.json")[0] == record


def test_it_says_what_it_holds() -> None:
    record = Device(GPU).check()
    data = self_check_data(record, run_checks(record))
    assert data["holds"] == [*HOLDS, LACKS]
    assert data["record"]["schema_version"] == 1
    assert data["verdict"] == "Self-check of gpu:0: 19 hold, 0 fail, 0 cannot be seen here."
    holds(self_check_text(record, run_checks(record)), *HOLDS, LACKS)


def test_a_reason_is_said_once() -> None:
    record = Device(GPU, "no such device").check()
    text = self_check_text(record, run_checks(record))
    assert text.count("no gpu:0") == 1
    holds(text, "17 other checks:")


def test_the_host_can_be_told_from_it() -> None:
    record = Device(GPU).check()
    assert isinstance(record.host, HostStudy)
    graph, xla, eager = floor_lines(record)
    holds(graph, "(measured): 300 µs", "2 µs (", " per operation.")
    assert "xla" in xla
    assert "eager" in eager


@pytest.mark.usefixtures("known")
def test_no_names_of_host_user_home_and_other_programs_are_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(GPU)
    launch = device.launch

    def failing(targets, deadline_s, *rest):
        worker, *others = launch(targets, deadline_s, *rest)
        ask = worker.ask

        def asked(request, deadline_s):
            if request.kind == "prepare" and request.slot:
                said = f"“{HOME}/model.py: {USER}@{HOST.upper()} on {UUID} in C:\\Users\\{USER}\\x”"
                raise CellFailed("error", said)
            return ask(request, deadline_s)

        monkeypatch.setattr(worker, "ask", asked)
        return (worker, *others)

    record = device.check(launch=failing)
    text = json.dumps(self_check_data(record, run_checks(record))) + self_check_text(record, run_checks(record))
    for name in (HOST, "rechenknecht", USER, HOME, "secret-project", UUID, "Users", "model.py"):
        assert name.lower() not in text.lower(), name
    assert "hostname" not in text
    assert record.readings.missing["clusters"]


def test_a_machine_is_told_by_fields_that_are_named_one_by_one() -> None:
    gpu = Gpu(name="Card", driver="580.1")
    environment = Environment(captured_at="2026-11-22", hostname_hash="0123456789ab", cpu="A CPU", gpus=(gpu,))
    facts = MachineFacts.of(environment)
    assert facts.gpus[0].driver == "580.1"
    assert "0123456789ab" not in facts.model_dump_json()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("File /tmp/x/y.py, line 3", "File …, line 3"),
        ("at “~/work/a.npy”.", "at “…”."),
        (f"{USER} on {HOST}", "… on …"),
        ("Matmul took 3 ms, 40 % of 2/3", "Matmul took 3 ms, 40 % of 2/3"),
        ("There is no gpu:0: TensorFlow found no GPU.", "There is no gpu:0: TensorFlow found no GPU."),
        ("node dense/MatMul: C:\\data\\a b", "node dense/MatMul: … b"),
        (f"{HOME} x/a.npy", "… x/a.npy"),
        (f"Device {UUID} is lost", "Device … is lost"),
    ],
)
def test_a_sentence_loses_what_is_private_and_nothing_else(said: str, left: str) -> None:
    assert anonymous(said) == left


@pytest.mark.parametrize(("user", "left"), [("root", "root"), ("Ubuntu", "Ubuntu"), ("ann", "ann"), ("anna", "…")])
def test_names_that_are_no_secret_stay(monkeypatch: pytest.MonkeyPatch, user: str, left: str) -> None:
    monkeypatch.setattr(platform, "node", lambda: "localhost")
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    monkeypatch.setenv("HOME", "/root")
    assert anonymous(f"On localhost: as {user}, start") == f"On localhost: as {left}, start"


@pytest.mark.parametrize("text", ["", "[]", "{}", "7", '{"record": 7}', '{"schema_version": 2}', '{"target": "cpu"}'])
def test_what_is_no_self_check_is_refused_with_a_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"\."):
        read_self_check(path)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(" " * (MAX_FILE_BYTES + 1))
    with pytest.raises(UserError, match="too large"):
        read_self_check(path)


@pytest.mark.parametrize("extreme", [0, 1e-300, 1e-9, 1e12, 1e308, -1.0, 2**62])
def test_whatever_numbers_a_file_holds_it_is_refused_or_judged(extreme: float, tmp_path: Path) -> None:
    """Replace each number in turn: no file makes a reader fail otherwise than with a sentence."""
    data = json.loads(Device(GPU).check().model_copy(update={"host": None}).to_json())
    path = tmp_path / "check.json"
    judged = 0
    for holder, key in list(numbers(data)):
        holder[key], before = extreme, holder[key]
        path.write_text(json.dumps(data))
        holder[key] = before
        try:
            record, checks = read_self_check(path)
        except UserError:
            continue
        judged += len(self_check_text(record, checks)) > 0
    assert judged or not 0 <= extreme <= 1e12


def numbers(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the places of the numbers; of a list only the first."""
    items = data.items() if isinstance(data, dict) else list(enumerate(data))[:1]
    for key, value in items:
        if isinstance(value, dict | list):
            yield from numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield data, key


def test_the_most_it_holds_fits_its_limit() -> None:
    record = Device(GPU).check()
    assert len(json_text(self_check_data(record, run_checks(record)))) < MAX_FILE_BYTES / 10

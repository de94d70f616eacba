"""Hostile inputs, mutated from valid ones by the seed, through the commands and the pages' import functions."""

from __future__ import annotations

import json
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.faults import mutate, shapes
from benchmarks.faults.cases import CaseClass, Check, Findings
from benchmarks.faults.children import made_elsewhere
from benchmarks.faults.entries import CommandResult, check_result, run, simulated_workers
from benchmarks.faults.good import (
    changed_data,
    good_cards,
    good_csv,
    good_data,
    good_models,
    good_plan,
    good_run,
    good_trace,
    record_data,
)
from benchmarks.faults.stores import imported, store_file, store_rows
from core.base.schema import UserError
from core.studies.registry import kinds
from simulated import keras_files
from simulated.memories import MemoryMachine, linear

CARD = "A100-80GB-SXM"
FAST = (*shapes.SWEEP[1:], "--preset", "12-8-4", "--pipeline", "tfdata", "--data")
NEUTRAL = 0.12  # share of cases whose changes leave the meaning unchanged


# -- entries -----------------------------------------------------------------------------------------------------------


def _file(name: str, data: bytes | str) -> str:
    path = Path(name)
    path.write_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)
    return name


def _checked(findings: Findings, *arguments: str, statuses: tuple[int, ...] = (0, 1, 2)) -> CommandResult:
    result = run(*arguments)
    check_result(result, findings, statuses)
    return result


def _same(findings: Findings, result: CommandResult, *arguments: str) -> None:
    """Check that the changed input gave the same output as the valid one."""
    good = run(*arguments)
    assert good.status == 0, good.err  # otherwise nothing would be compared
    findings.require(
        (result.status, result.out) == (good.status, good.out),
        "wrong numbers",
        f"other words: {result.err[:120]} {result.out[:120]!r}",
    )


def csv_verdict(random_: random.Random, _: int, findings: Findings) -> None:
    if random_.random() < NEUTRAL:
        _file("good.csv", good_csv())
        result = _checked(findings, "verdict", _file("run.csv", mutate.same_lines(good_csv(), random_)), "--json")
        _same(findings, result, "verdict", "good.csv", "--json")
        return
    data = mutate.lines_of(good_csv(), random_)
    if random_.random() < 0.3:
        data = mutate.bytes_of(data, random_)
    _checked(findings, "verdict", _file("run.csv", data), *random_.choice(((), ("--json",), ("--margin", "0.1"))))


def run_json(random_: random.Random, _: int, findings: Findings) -> None:
    data = record_data("sweep")
    if random_.random() < NEUTRAL:
        _file("good.json", json.dumps(data))
        result = _checked(findings, "verdict", _file("run.json", mutate.same_json(data, random_)), "--json")
        _same(findings, result, "verdict", "good.json", "--json")
        return
    text: str | bytes = mutate.json_of(data, random_)
    if random_.random() < 0.15:
        text = mutate.bytes_of(json.dumps(data).encode(), random_)
    name = _file("run.json", text)
    ways: tuple[tuple[str, ...], ...] = (
        ("verdict", name), ("verdict", name, "--json"), ("report", name, "--out", "report.html"), ("batch", name),
        ("batch", name, "--price", "cpu,threads=1=0.2", "--json"), ("predict", "--gpu", CARD, "--against", name),
    )  # fmt: skip
    way = random_.choice(ways)
    _checked(findings, *way)
    if way[0] == "report" and Path("report.html").exists():
        _check_html(Path("report.html").read_text(), findings)


def _check_html(html: str, findings: Findings) -> None:
    for text in ("<script>alert(1)", "<img src=x", '"><img', "\x1b", "\x00"):
        findings.require(text not in html, "else", f"the report holds {text!r} as it is")


def study_json(random_: random.Random, index: int, findings: Findings) -> None:
    """Play a study of every kind: read by its command, or imported as on the History page, then shown again."""
    kind = sorted(kinds())[index % len(kinds())]
    data = record_data(kind)
    neutral = random_.random() < NEUTRAL
    text: str | bytes = mutate.same_json(data, random_) if neutral else mutate.json_of(data, random_)
    if not neutral and random_.random() < 0.15:
        text = mutate.bytes_of(json.dumps(data).encode(), random_)
    findings.about(kind)
    takes = {
        "noise": ("batch", "run.json", "--noise"),
        "memory": ("batch", "run.json", "--memory"),
        "host": ("predict", "--gpu", CARD, "--preset", "784-128-10", "--host"),
    }
    if kind in takes and random_.random() < 0.5:
        _file("run.json", good_run().to_json())
        result = _checked(findings, *takes[kind], _file("study.json", text))
        if neutral:
            _same(findings, result, *takes[kind], _file("good.json", json.dumps(data)))
        return
    imported(
        text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, findings, kind if neutral else None
    )


def plans(random_: random.Random, _: int, findings: Findings) -> None:
    text: str | bytes = mutate.json_of(good_plan(), random_)
    if random_.random() < 0.2:
        text = mutate.bytes_of(json.dumps(good_plan()).encode(), random_)
    with simulated_workers():
        _checked(findings, "sweep", "--plan", _file("plan.json", text), "--no-store")


def architectures(random_: random.Random, index: int, findings: Findings) -> None:
    model = good_models()[index % 2]
    ask = ("predict", "--gpu", CARD, "--batches", "1,8", "--architecture")
    if random_.random() < NEUTRAL:
        result = _checked(findings, *ask, _file("model.json", mutate.same_json(model, random_)))
        _same(findings, result, *ask, _file("model.json", json.dumps(model)))
        return
    data = mutate.json_of(model, random_).encode("utf-8", "surrogatepass")
    name = "model.json"
    if random_.random() < 0.4:
        name, data = "model.keras", keras_files.archive(data, packing=random_.choice((0, 8)))
        if random_.random() < 0.6:
            data = mutate.bytes_of(keras_files.archive(json.dumps(model).encode()), random_)
    elif random_.random() < 0.2:
        data = mutate.bytes_of(json.dumps(model).encode(), random_)
    _checked(findings, *ask, _file(name, data))


def cards(random_: random.Random, _: int, findings: Findings) -> None:
    if random_.random() < NEUTRAL:
        result = _checked(findings, "gpus", "--add", _file("cards.json", mutate.same_json(good_cards(), random_)))
        findings.require(result.status == 0, "wrong numbers", f"refused: {result.err}")
        return
    text: str | bytes = mutate.json_of(good_cards(), random_)
    if random_.random() < 0.2:
        text = mutate.bytes_of(json.dumps(good_cards()).encode(), random_)
    added = _checked(findings, "gpus", "--add", _file("cards.json", text), *random_.choice(((), ("--json",))))
    if added.status == 0:
        _checked(findings, "gpus", statuses=(0,))


def prices(random_: random.Random, _: int, findings: Findings) -> None:
    odd = lambda good: str(random_.choice((*mutate.TEXTS, *mutate.NUMBERS, good))).replace("\x00", "")  # noqa: E731
    flags = {
        "--price": f"{odd('cpu,threads=1')}={odd('0.2')}",
        "--currency": odd("EUR"),
        "--priced-on": odd("2026-11-01"),
        "--epoch-samples": odd("60000"),
    }
    chosen = [part for flag in random_.sample(sorted(flags), random_.randrange(1, 4)) for part in (flag, flags[flag])]
    _file("run.json", good_run().to_json())
    _checked(findings, "batch", "run.json", *chosen)


OPTIONS = {
    "sweep": "preset targets batches budget margin prefetch preprocess-us data family units name mode",
    "pipeline": "preset target batch prefetch parallel-calls budget data name",
    "frontier": "depths widths batches at family targets budget",
    "scaling": "preset targets batches budget name",
    "memory": "preset target limit budget name",
    "predict": "gpu preset batches precision execution host",
    "verdict": "margin",
}
VALUES = [
    "1:1024",
    "1,8",
    "8:1",
    "1:1e9",
    "0",
    "-5",
    "cpu",
    "gpu:99",
    "gpu:-1",
    "cpu,threads=0",
    "cpu,threads=1e9",
    "784-512-10",
    "1-1",
    "9999999-9999999-10",
    "ResNet50@0:10",
    "ResNet50@99999:10",
    "lenet5",
    "2,512,32",
    "1,1",
    "1:99999:0.0001",
    "4GB",
    "0.1MB",
    "999999GB",
    "1e3",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "auto",
    "off",
    "99999999999999999999",
    "--json",
    "-",
    ":",
    ",",
    "@",
    "A100",
    "٣",
    "１",
]


def options(random_: random.Random, index: int, findings: Findings) -> None:
    """Play flags with invalid values."""
    name = sorted(OPTIONS)[index % len(OPTIONS)]
    arguments: list[str] = [name]
    if name == "predict":
        arguments += ["--gpu", CARD]
    if name == "verdict":
        arguments += [_file("run.json", good_run().to_json())]
    known = [f"--{flag}" for flag in OPTIONS[name].split()]
    for flag in random_.sample(known, min(len(known), random_.randrange(1, 3))):
        for _ in range(2 if flag == "--targets" else 1):
            arguments += [flag] if flag not in arguments else []
            arguments.append(str(random_.choice((*VALUES, *VALUES, *mutate.TEXTS))).replace("\x00", ""))
    findings.about(" ".join(map(ascii, arguments))[:200])
    if name in ("sweep", "pipeline", "frontier", "scaling", "memory"):
        arguments += ["--no-store"] + ([] if "--budget" in arguments else ["--budget", "10"])
    with simulated_workers(machine=MemoryMachine(linear(30e6, 20e3)) if name == "memory" else None):
        _checked(findings, *arguments)


def own_data(random_: random.Random, index: int, findings: Findings) -> None:
    """Play files of samples and labels, checked before a worker reads them."""
    with simulated_workers():
        _checked(findings, "sweep", *FAST, changed_data(random_, index, findings))


def traces(random_: random.Random, _: int, findings: Findings) -> None:
    data = mutate.bytes_of(good_trace(), random_)
    _checked(findings, "trace", _file("made.xplane.pb", data), *random_.choice(((), ("--json",))))


# -- texts -------------------------------------------------------------------------------------------------------------


def texts(random_: random.Random, index: int, findings: Findings) -> None:
    """Play a text that a terminal or a page would obey, in each text field, through command, import and report."""
    kind = sorted(kinds())[index % len(kinds())]
    data = json.loads(json.dumps(record_data(kind)))
    places = list(_texts(data))
    holder, key = places[(index // len(kinds())) % len(places)]
    added = random_.choice((*mutate.CONTROL, *mutate.MARKUP))
    holder[key] = holder[key] + added if random_.random() < 0.5 else added
    findings.about(f"{kind}: {key} = {holder[key][:60]!r}")
    text = json.dumps(data)
    if kind == "sweep":
        _file("run.json", text)
        _checked(findings, "verdict", "run.json")
        _checked(findings, "batch", "run.json")
        _checked(findings, "report", "run.json", "--out", "report.html")
        if Path("report.html").exists():
            _check_html(Path("report.html").read_text(), findings)
    imported(text.encode(), findings)


def _texts(value: Any) -> list[tuple[Any, Any]]:
    """Return every text in a JSON value as its container and key; similar places of a list occur once."""
    places: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        for key, part in value.items():
            places += [(value, key)] if isinstance(part, str) else _texts(part)
    elif isinstance(value, list):
        for at, part in enumerate(value[:2]):
            places += [(value, at)] if isinstance(part, str) else _texts(part)
    return places


# -- paths and shapes --------------------------------------------------------------------------------------------------


def paths(random_: random.Random, index: int, findings: Findings) -> None:
    """Play names that are too long, devices, pipes, loops, folders, and forbidden ones: one sentence, exit 2."""
    name, path = shapes.PATHS[index % len(shapes.PATHS)]
    ask = shapes.TAKES_PATH[index // len(shapes.PATHS) % len(shapes.TAKES_PATH)]
    path_name = path(Path.cwd())
    findings.about(f"{' '.join(ask)} {name}")
    _file("run.json", good_run().to_json())
    arguments = [path_name if part == "PATH" else part for part in ask]
    if random_.random() < 0.2:
        arguments[arguments.index(path_name)] = path_name + random_.choice(("/x", "/../..", ".json", "\x1b[31m"))
    with simulated_workers():
        _checked(findings, *arguments)


def heavy(_: random.Random, index: int, findings: Findings) -> None:
    """Play inputs that cost a reader more than their size: within 10 s and 1 GB, or refused."""
    name, make = shapes.HEAVY[index % len(shapes.HEAVY)]
    findings.about(name)
    arguments = made_elsewhere(lambda: _made(make))
    with simulated_workers():
        _checked(findings, *arguments)


def _made(make: shapes.Shape) -> list[str]:
    arguments, data = make()
    name = _file(*data)
    return [name if part == "FILE" else part for part in arguments]


def _class(name: str, cases: int, check: Check, patience_s: float = 20.0) -> CaseClass:
    return CaseClass(name, "hostile", cases, check, bounded=True, patience_s=patience_s)


CLASSES = (
    _class("CSV for verdict", 600, csv_verdict),
    _class("run JSON", 900, run_json),
    _class("study JSON of every kind", 840, study_json),
    _class("plans", 400, plans),
    _class("architectures", 500, architectures),
    _class("GPU cards", 250, cards),
    _class("prices", 150, prices),
    _class("flags", 350, options),
    _class("own data", 350, own_data),
    _class("traces", 400, traces),
    _class("store, damaged file", 200, store_file),
    _class("store, forged rows", 270, store_rows),
    _class("texts in every field", 420, texts),
    _class("paths", len(shapes.PATHS) * len(shapes.TAKES_PATH), paths),
    _class("heavy shapes", len(shapes.HEAVY), heavy, 120.0),
)


def warm() -> None:
    """Load once what the cases need."""
    with suppress(UserError):
        import core.rounds.show.report
        import core.traces.report
        import core.traces.xplane  # noqa: F401
    for kind in kinds():
        record_data(kind)
    good_trace(), good_data(), good_models(), good_csv(), good_plan(), good_cards()

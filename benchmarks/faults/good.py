"""Valid inputs of every sort, made once and kept small, so that a mutation hits something that matters."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.faults import mutate
from benchmarks.faults.cases import Findings
from core.rounds.run import Run
from core.studies.sweep.kind import SWEEP
from simulated import keras_files
from simulated.kinds import cases
from simulated.traces import gpu_trace


@cache
def good_run() -> Run:
    run: Run = good_record(SWEEP.name)
    return run


@cache
def good_csv() -> str:
    lines = ["target,batch,step_ms,round,process"]
    for item in good_run().rounds:
        lines += [
            f"{'ab'[block.target]},{item.batch},{block.step_ms:.6f},{item.index},{block.process}"
            for block in item.blocks
        ]
    return "\n".join(lines)


@cache
def good_record(kind: str) -> Any:
    """Return a small valid record of that kind."""
    return cases()[kind].small_study()


@cache
def record_data(kind: str) -> Any:
    return json.loads(good_record(kind).to_json())


@cache
def good_models() -> tuple[dict[str, Any], ...]:
    layer = keras_files.layer
    dense = [
        keras_files.source(16, name="in"),
        layer("Dense", "d", "in", units=8, activation="relu"),
        layer("Dense", "e", "d", units=3),
    ]
    return (keras_files.functional(*dense), keras_files.branches())


@cache
def good_trace() -> bytes:
    return gpu_trace().data()


@cache
def good_cards() -> dict[str, Any]:
    card = {"name": "Ours", "fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500, "link": "PCIe 4.0 x16"}
    more = {
        "title": "A card",
        "half_tflops": 80.0,
        "price": {"per_hour": 1.5, "currency": "EUR", "dated": "2026-11-01"},
    }
    return {"gpus": [card, card | {"name": "Other"} | more]}


@cache
def good_data() -> dict[str, bytes]:
    """Return files of user data by their extension."""
    x, y = np.arange(96, dtype=np.float32).reshape(8, 12), np.arange(8) % 4
    made: dict[str, bytes] = {}
    saved: dict[str, Callable[[Any], None]] = {
        "npy": lambda file: np.save(file, x),
        "npz": lambda file: np.savez(file, x=x, y=y),
        "z.npz": lambda file: np.savez_compressed(file, x=x, y=y),
    }
    for name, save in saved.items():
        buffer = io.BytesIO()
        save(buffer)
        made[name] = buffer.getvalue()
    record = b"\x0a\x10\x0a\x0e\x0a\x01x\x12\x09\x12\x07\x0a\x05\x00\x00\x80\x3f\x00"
    frame = len(record).to_bytes(8, "little") + b"\x00" * 4 + record + b"\x00" * 4
    made["tfrecord"], made["tfrecord.gz"] = frame * 5, gzip.compress(frame * 5)
    made["png"] = _png()
    made["jpg"] = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080002000201011100ffd9")
    return made


def changed_data(random_: random.Random, index: int, findings: Findings) -> str:
    """Write a mutated file or folder of data and return its name."""
    ending = sorted(good_data())[index % len(good_data())]
    data = mutate.bytes_of(good_data()[ending], random_)
    findings.about(ending)
    name = f"data.{ending}"
    if ending in ("png", "jpg"):
        for number in range(3):
            folder = Path("images") / "ab"[number % 2]
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.{ending}").write_bytes(data if number else good_data()[ending])
        name = "images"
    else:
        Path(name).write_bytes(data)
    return name


def _png() -> bytes:
    """Return an image of two by two pixels."""
    rows = b"".join(b"\x00" + bytes(range(row, row + 6)) for row in (0, 6))
    parts = {b"IHDR": struct.pack(">2I5B", 2, 2, 8, 2, 0, 0, 0), b"IDAT": zlib.compress(rows), b"IEND": b""}
    chunks = (struct.pack(">I", len(p)) + n + p + struct.pack(">I", zlib.crc32(n + p)) for n, p in parts.items())
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


@cache
def good_plan() -> Any:
    plan = good_run().plan
    assert plan is not None
    return json.loads(
        plan.model_copy(update={"batches": (1, 8, 64), "budget_s": 10.0, "trace": False}).model_dump_json()
    )

"""The cost of sampling a GPU to a CPU step beside it, with a made-up NVML.

A real worker runs blocks of training steps on the CPU, every second one while the sampler asks a made-up card whose
answers take as long as NVIDIA's reference says or a little more (PCIe throughput 20 ms, the others 0.2 ms, waiting
without Python's lock as the driver does). The ratio of the step times, sampled over not, is that of neighbouring
blocks; its median has a distribution-free 95 % interval. Beside it stands the CPU time of the thread.

    python -m benchmarks.card_sampler [--rounds 60] [--block-ms 300]
"""

from __future__ import annotations

import argparse
import time
from contextlib import closing

import numpy as np

from core.analysis.statistics import bounded_median
from core.base.evidence import CardUse
from core.machine.lock import machine_lock
from core.machine.meter import Card, CardSampler
from core.machine.nvml import Handle
from core.worker.process import launch_processes
from core.worker.protocol import Prepare, RunBlock
from core.workload.spec import Pipeline, Target, Workload

WORKLOAD, BATCH, DEADLINE_S = Workload(network="784-512-512-10"), 64, 120.0
PCIE_S, ELSE_S = 0.02, 0.0002
SLOW = "nvmlDeviceGetPcieThroughput"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--block-ms", type=float, default=300.0)
    options = parser.parse_args()
    with machine_lock("benchmarks/card_sampler.py"):
        ratios, uses = measure(options.rounds, options.block_ms)
    middle, low, high = bounded_median(np.array(ratios))
    interval = "no interval" if low is None or high is None else f"95 % {low:.4f} to {high:.4f}"
    length_s, samples = sum(use.length_s for use in uses), sum(use.samples for use in uses)
    cpu_ms = sum(use.cpu_ms for use in uses)
    print(f"step with sampling over without: {middle:.4f} ({interval}), {len(ratios)} pairs of blocks")
    print(f"{samples / length_s:.1f} samples per second, {cpu_ms / samples:.3f} ms of CPU time each")
    print(f"{100 * cpu_ms / 1000 / length_s:.2f} % of one core")


def measure(rounds: int, block_ms: float) -> tuple[list[float], list[CardUse]]:
    """Return the ratios of neighbouring blocks' step times, sampled over not sampled, and the samples."""
    from simulated.fake_nvml import FakeCard, FakeNvml  # needs the real package for its constants

    nvml = FakeNvml([FakeCard()], before=lambda name: time.sleep(PCIE_S if name == SLOW else ELSE_S))
    card = Card(nvml, Handle(nvml.cards[0], nvml.cards[0]))
    ratios: list[float] = []
    uses: list[CardUse] = []
    (worker,) = launch_processes((Target(),), DEADLINE_S)
    try:
        prepared = worker.ask(Prepare(workload=WORKLOAD, pipeline=Pipeline(), batch=BATCH), DEADLINE_S)
        steps = max(1, round(block_ms / min(prepared.latency_ms)))
        request = RunBlock(batch=BATCH, steps=steps)
        with closing(CardSampler(lambda _: card)) as sampler:
            for index in range(rounds):
                times = {}
                for sampled in (True, False) if index % 2 else (False, True):
                    if sampled:
                        sampler.begin("gpu:0")
                    times[sampled] = worker.ask(request, DEADLINE_S).block_ms
                    if sampled and (use := sampler.end()) is not None:
                        uses.append(use)
                ratios.append(times[True] / times[False])
    finally:
        worker.close()
    return ratios, uses


if __name__ == "__main__":
    main()

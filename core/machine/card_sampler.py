"""Background thread that samples a GPU through NVML while a block runs on it, and waits at no cost in between.

It lives in the process that drives the workers, so a slow answer of NVML delays no step; its cost is measured.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from core.evidence import CardUse
from core.machine.card import PCIE, Card, CardSample, summarise

EVERY_S = 0.05  # between two samples of a block
APART_S = 0.1  # minimum between samples of different blocks: short blocks need not all be sampled
FIRST_S = 0.01  # after a block's start; the shortest lasts 20 ms, and the GPU is at work by then
ENDING_S = 2.0  # for which closing waits for an answer of the driver
Open = Callable[[str], Card | None]


class CardSampler:
    """Sampler of a device's card between :meth:`begin` and :meth:`end`, one at a time.

    ``open_card`` is called once per device, with ``gpu:0`` and so on. The thread starts with the first block on a card
    that answers, and ends with :meth:`close`.
    """

    def __init__(self, open_card: Open) -> None:
        self._open = open_card
        self._cards: dict[str, Card | None] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._now: Card | None = None  # being sampled
        self._samples: list[CardSample] = []
        self._block = 0  # numbers blocks, so that a late answer is not attributed to the next one
        self._begin_s = self._last_s = float("-inf")
        self._cpu_s = self._ask_s = 0.0

    def card(self, device: str) -> Card | None:
        """Return the card of a device; None if NVML does not list it."""
        if device not in self._cards:
            self._cards[device] = self._open(device)
        return self._cards[device]

    def begin(self, device: str) -> None:
        """Start sampling a block on a device."""
        card = self.card(device)
        if card is None or self._closed:
            return
        with self._changed:
            self._block += 1
            self._now, self._samples = card, []
            self._begin_s = time.perf_counter()
            self._cpu_s = self._ask_s = 0.0
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="breakeven-cards", daemon=True)
                self._thread.start()
            self._changed.notify()

    def end(self) -> CardUse | None:
        """Stop sampling; return the block's summary, None if there was no time for a sample."""
        with self._changed:
            samples, self._samples = self._samples, []
            sampled, self._now = self._now is not None, None
            if not sampled or not samples:
                return None
            length_s = time.perf_counter() - self._begin_s
            return summarise(samples, length_s, 1000 * self._cpu_s, 1000 * self._ask_s / len(samples))

    def close(self) -> None:
        """End the thread. Safe to call twice."""
        with self._changed:
            self._closed, self._now = True, None
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(ENDING_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._closed:
                    return
                card, block, nth = self._now, self._block, len(self._samples)
                due_s = self._last_s + EVERY_S if nth else max(self._begin_s + FIRST_S, self._last_s + APART_S)
                wait_s = due_s - time.perf_counter()
                if card is None or wait_s > 0:
                    self._changed.wait(None if card is None else wait_s)
                    continue
                self._last_s = time.perf_counter()
            self._sample(card, block, nth)

    def _sample(self, card: Card, block: int, nth: int) -> None:
        """Take one sample; from a block's second one on with one direction of PCIe, which takes 20 ms."""
        cpu_s, begin_s = time.thread_time(), time.perf_counter()
        sample = card.sample(begin_s)
        self._keep(block, sample, cpu_s, begin_s)
        if nth:
            cpu_s, begin_s = time.thread_time(), time.perf_counter()
            found = card.ask((PCIE[nth % 2],))
            with self._changed:
                if block == self._block and self._now is not None:
                    sample.values |= found
                    self._cpu_s += time.thread_time() - cpu_s
                    self._ask_s += time.perf_counter() - begin_s

    def _keep(self, block: int, sample: CardSample, cpu_s: float, begin_s: float) -> None:
        with self._changed:
            if block == self._block and self._now is not None:
                self._samples.append(sample)
                self._cpu_s += time.thread_time() - cpu_s
                self._ask_s += time.perf_counter() - begin_s

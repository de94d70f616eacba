"""A compile study in words, as a table, and as JSON."""

from __future__ import annotations

from typing import Any

from core.base.evidence import note_lines
from core.base.numbers import byte_size, counted, duration, large, moment, number, percent, table
from core.base.text import in_lines, sentence_case
from core.studies.compiled.answer import (
    CardFacts,
    CardStep,
    CompileAnswer,
    KernelTime,
    between,
    counts,
    tensorflow_range,
)
from core.studies.compiled.record import CompileStudy
from core.traces.program import KernelClass
from core.workload.names import all_of
from core.workload.spec import MAX_BATCH

CLASS_WORDS: dict[KernelClass, tuple[str, str]] = {
    "product": ("product", "products"),
    "convolution": ("convolution", "convolutions"),
    "fusion": ("fusion", "fusions"),
    "copy": ("copy", "copies"),
    "library": ("library call", "library calls"),
    "other": ("other", "others"),
}
COLUMNS = ("card", "batch", "kernels", "of them", "memory at least", "least ms", "modelled ms", "95 % from", "to")
KERNEL_COLUMNS = ("kernel", "layer", "times", "bytes", "MFLOP", "least µs per step", "limited by")
NOT_TUNED = (
    "Nothing was tuned, since there was no card to time kernels on, and this is the compiler of Keras on JAX; "
    "TensorFlow carries another XLA."
)
AT_LEAST = (
    "Memory is XLA's plan for one step: libraries, the CUDA context and what else lives on the card come on top. The "
    "least time is of these kernels alone, without launches; modelled times are counted from layers."
)


def label_words(study: CompileStudy) -> str:
    """Return what the label says in full, as in “compiled by XLA of JAX 0.10.2, not tuned”."""
    return f"{study.label} by XLA of JAX {study.compiler or 'unknown'}, not tuned"


def kernel_words(step: CardStep) -> str:
    """Return the kernels by class, as in “8 products, 17 fusions and 5 copies”."""
    words = [counted(count, *CLASS_WORDS[kind]) for kind, count in counts(step.program).items()]
    loops = f", {step.in_loops:,} of them in loops" if step.in_loops else ""
    return f"{all_of(words)}{loops}"


def tensorflow_sentence(step: CardStep) -> str:
    """Return the range of kernels on TensorFlow."""
    low, high = tensorflow_range(step)
    return f"On TensorFlow some {low:,} to {high:,} kernels, since it carries another XLA."


def sentence(step: CardStep, modelled: bool = True) -> str:
    """Return one card at one batch size as a sentence, with its ``modelled`` time if that is known."""
    about = ""
    if modelled and step.modelled_ms is not None:
        middle, low, high = step.modelled_ms
        about = f", modelled at about {number(middle)} ms ({number(low)} to {number(high)})"
    return (
        f"{counted(step.program.launches, 'kernel')} per step on {step.spec.name} at batch {step.batch:,}, at least "
        f"{byte_size(step.program.memory_bytes)}, no faster than {number(step.floor_ms)} ms{about}."
    )


def between_sentence(card: CardFacts, batch: int) -> str:
    """Return what a batch size between two compiled ones needs; empty if it is none."""
    point = between(card, batch)
    if point is None:
        return ""
    low, high = sorted((point.below.program.launches, point.above.program.launches))
    kernels = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    return (
        f"{card.spec.name} at batch {batch:,}, interpolated between {point.below.batch:,} and {point.above.batch:,}: "
        f"{kernels} kernels, about {byte_size(round(point.memory_bytes))} at least, and a least time of about "
        f"{number(point.floor_ms)} ms (not below {number(point.below.floor_ms)})."
    )


def fit_sentence(card: CardFacts) -> str:
    """Return which batch sizes cannot fit on the card by the compiler's plan; empty if too few were compiled."""
    if card.largest is None:
        return ""
    if card.largest >= MAX_BATCH:
        return f"{card.spec.name}: by the compiler's plan any batch up to {MAX_BATCH:,} may fit."
    if card.largest < 1:
        return f"{card.spec.name}: not even {counted(card.steps[0].batch, 'sample')} per step fits."
    last = card.steps[-1].batch
    beyond = f" (extrapolated from batch {last:,})" if card.largest > last else ""
    into = f"its {number(card.spec.memory_gb)} GB"
    return f"{card.spec.name}: by the compiler's plan no batch above {large(card.largest)} fits into {into}{beyond}."


def share_sentence(step: CardStep) -> str:
    """Return the least time over the modelled step; empty without a modelled time."""
    if step.modelled_ms is None:
        return ""
    return f"The least time is {percent(step.floor_ms / step.modelled_ms[0])} of the modelled step."


def lines(answer: CompileAnswer) -> list[str]:
    """Return the verdict: every card at the middle of its batch sizes, then what fits."""
    middle = [card.steps[len(card.steps) // 2] for card in answer.cards if card.steps]
    return [*map(sentence, middle), tensorflow_sentence(middle[0])] + [
        fit for card in answer.cards if (fit := fit_sentence(card))
    ]


def rows(answer: CompileAnswer) -> list[tuple[str | float | None, ...]]:
    """Return every card and batch size in the order of :data:`COLUMNS`; a failed one says why."""
    made: list[tuple[str | float | None, ...]] = []
    for card in answer.cards:
        for step in card.steps:
            program = step.program
            made.append(
                (card.spec.name, f"{step.batch:,}", f"{program.launches:,}", kernel_words(step),
                 byte_size(program.memory_bytes), step.floor_ms, *(step.modelled_ms or (None,) * 3))
            )  # fmt: skip
        made += [(card.spec.name, f"{failed.batch:,}", "", failed.reason, "", *(None,) * 4) for failed in card.failed]
    return made


def kernel_row(time: KernelTime) -> tuple[str | float | None, ...]:
    """Return one kernel in the order of :data:`KERNEL_COLUMNS`."""
    kernel = time.kernel
    return (
        CLASS_WORDS[kernel.kind][0], kernel.layer, f"{kernel.times:,}", byte_size(kernel.bytes), kernel.flops / 1e6,
        time.total_us, time.limit,
    )  # fmt: skip


def compile_text(study: CompileStudy, answer: CompileAnswer) -> str:
    """Return the verdict, every card and batch size, and the kernels that cost most on the first card."""
    shown = next(card.steps[len(card.steps) // 2] for card in answer.cards if card.steps)
    output = [
        *lines(answer), "", *table(COLUMNS, rows(answer)), "",
        f"Kernels that cost most on {shown.spec.name} at batch {shown.batch:,}:", "",
        *table(KERNEL_COLUMNS, map(kernel_row, shown.costliest)), "",
        f"{sentence_case(label_words(study))}; {study.plan.workload.title}, {study.plan.precision}, in "
        f"{duration(study.elapsed_s)}, {study.status}, {moment(study.created_at)}. {NOT_TUNED} {AT_LEAST}",
    ]  # fmt: skip
    return in_lines([*output, *note_lines(study.warnings)])


def compile_data(study: CompileStudy, answer: CompileAnswer) -> dict[str, Any]:
    """Return the study as JSON data, with kernels, memory and floor by card and batch size."""
    return {
        "verdict": lines(answer)[0],
        "label": study.label,
        "compiler": study.compiler,
        "cards": [
            {
                "gpu": card.spec.name,
                "largest_batch": card.largest,
                "steps": [_step_data(step) for step in card.steps],
                "failed": [{"batch": step.batch, "reason": step.reason} for step in card.failed],
            }
            for card in answer.cards
        ],
        "record": study.model_dump(mode="json"),
    }


def _step_data(step: CardStep) -> dict[str, Any]:
    modelled = dict(zip(("step_ms", "low_ms", "high_ms"), step.modelled_ms or (None,) * 3, strict=True))
    return {
        "batch": step.batch,
        "kernels": step.program.launches,
        "kernels_tensorflow": tensorflow_range(step),
        "kernels_by_class": counts(step.program),
        "kernels_in_loops": step.in_loops,
        "flops": step.flops,
        "bytes": step.moved_bytes,
        "memory_bytes": step.program.memory_bytes,
        "floor_ms": step.floor_ms,
        "modelled": {"label": "modelled", **modelled},
        "compile_ms": step.compile_ms,
        "costliest": [
            {"class": time.kernel.kind, "layer": time.kernel.layer, "times": time.kernel.times,
             "bytes": time.kernel.bytes, "flops": time.kernel.flops, "floor_us": time.total_us, "limit": time.limit}
            for time in step.costliest
        ],
    }  # fmt: skip

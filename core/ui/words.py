"""Words and sentences that pages show."""

from __future__ import annotations

from core.numbers import number

LABEL_ICONS = {
    "measured": ":material/straighten:",
    "recorded": ":material/inventory_2:",
    "modelled": ":material/function:",
}
OUTCOMES = {
    "measured": "measured",
    "skipped": "skipped",
    "out_of_memory": "out of memory",
    "crashed": "worker crashed",
    "hung": "no reply before its deadline",
    "nan_loss": "loss became NaN",
    "misplaced": "ran on another device",
    "error": "failed",
    "pending": "not reached",
}
STOPS = {
    "precise": "interval narrow enough",
    "plateau": "noise no longer falls",
    "budget": "time budget used",
    "cancelled": "cancelled",
    "answered": "answer precise enough",
    "failed": "failed",
}
MODES = {"train": "Training", "infer": "Inference"}
OPTIMIZERS = {"sgd": "SGD", "momentum": "SGD with momentum", "adam": "Adam"}
PYTHON_HELP = (
    "The work is Python code wrapped for the map, as many pipelines have it: it holds Python's lock, so that parallel "
    "calls do not help."
)
PIPELINES = {
    "resident": "Resident on the device",
    "host": "Host array fed each step",
    "tfdata": "tf.data input pipeline",
}
NO_GPU_ADVICE = (
    "An NVIDIA card in this computer: install its driver, then check that `nvidia-smi` lists the card.",
    "The driver is there: install TensorFlow's CUDA libraries with `pip install -r requirements-gpu.txt` and restart.",
    "On Windows: TensorFlow uses a GPU only inside WSL2; install and start Breakeven there.",
    "The GPU is in another computer: run `python -m core sweep … --out run.json` there and import the file in History.",
)


def plain(text: str) -> str:
    """Text whose characters Markdown would take for markup, escaped (a name may hold any of them)."""
    for character in "\\`*_[]$<>~#|":
        text = text.replace(character, f"\\{character}")
    return text.replace(":", "&#58;")


def bounded(value: float, low: float | None, high: float | None) -> str:
    """A number with its interval in brackets, where it has one."""
    return number(value) if low is None or high is None else f"{number(value)} ({number(low)} to {number(high)})"

"""Words and sentences that pages show."""

from __future__ import annotations

from core.base.text import in_markdown
from core.rounds.run import OUTCOMES as OUTCOMES
from core.rounds.run import STOPS as STOPS

LABEL_ICONS = {
    "measured": ":material/straighten:",
    "recorded": ":material/inventory_2:",
    "published": ":material/menu_book:",
    "compiled": ":material/build:",
    "modelled": ":material/function:",
    "simulated": ":material/casino:",
}
MODES = {"train": "Training", "infer": "Inference"}
OPTIMIZERS = {"sgd": "SGD", "momentum": "SGD with momentum", "adam": "Adam"}
EXECUTIONS = {
    "keras": "default", "graph": "graph", "xla": "XLA", "eager": "eager", "compile": "compiled",
    "reduce-overhead": "CUDA graphs", "interpreter": "interpreter",
}  # fmt: skip
PRECISIONS = {
    "float32": "float32", "float32_strict": "float32 without TF32", "mixed_float16": "mixed precision (float16)",
    "mixed_bfloat16": "mixed precision (bfloat16)", "int8": "int8",
}  # fmt: skip
EXECUTION_HELP = (
    "default: what compile() itself chooses, on a GPU XLA where every layer supports it, else a graph. graph: compiled "
    "once. XLA: fused by the XLA compiler. eager: op by op."
)
CALL_HELP = (
    "Keras's own step: the compiled function alone, as predict runs it for each batch of a data set. The others, for "
    "host arrays: one whole call per batch, from a NumPy array to a NumPy result, as in a loop of your own."
)
OTHER_EXECUTION_HELP = (
    "default: what the framework does unless told otherwise. XLA: fused by the XLA compiler. compiled: by "
    "torch.compile, which takes up to half a minute a batch size. eager: op by op."
)
TF32_HERE = "On this card float32 is TF32. "
TF32_HELP = (
    "float32: on GPUs of compute capability 8.0 or higher TensorFlow lets products run as TF32, with 10 bits of "
    "fraction in place of 23. To switch that off choose float32 without TF32, for GPUs only. mixed: computes in 16 "
    "bits and keeps the weights in 32. int8, for inference: weights in 8 bits, which is not always faster."
)
CPU_HELP = "CPU: this machine as if it had no GPU, so Keras itself chooses a graph there."
NO_GPU_ADVICE = (
    "An NVIDIA card in this computer: install its driver, then check that `nvidia-smi` lists the card.",
    "The driver is there: install TensorFlow's CUDA libraries with `pip install -r requirements-gpu.txt` and restart.",
    "On Windows: TensorFlow uses a GPU only inside WSL2; install and start Breakeven there.",
    "The GPU is in another computer: run `python -m core sweep … --out run.json` there and import the file in History.",
)


def plain(text: str) -> str:
    """Escape text from outside for Streamlit's Markdown: one line, no markup, link, image or icon."""
    return in_markdown(text).replace(":", "&#58;")


def unbroken(text: str) -> str:
    """Escape as :func:`plain` does, without a line break between a number and its %."""
    return plain(text).replace(" %", "\u00a0%")

"""Words and sentences that pages show; the terms are those of the design."""

from __future__ import annotations

LABELS = {
    "measured": "Measured here, on this machine.",
    "recorded": "Recorded: measured elsewhere and imported or shipped, with the environment it came from.",
    "modelled": "Modelled: computed from a hardware model. Nothing was measured.",
}
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
TERMS = (
    ("workload", "What one step computes: network, training or inference, optimizer."),
    ("target", "Where and how it runs: device, threads, precision, execution. Written `cpu,threads=1`."),
    ("pipeline", "How a batch reaches the step: already on the device, from a host array, or through tf.data."),
    ("cell", "One workload on one target with one pipeline at one batch size."),
    ("block", "Consecutive steps closed by one device synchronisation; its time over the steps is one sample."),
    ("round", "One block of each target at one batch size, close together in time, in alternating order."),
    (
        "step time",
        "Median over rounds, in steady state. Start-up, first call and warm-up stand beside it, never inside.",
    ),
    ("latency", "Time of a single step with a synchronisation of its own."),
    ("floor, slope", "The fixed cost of a step and the marginal cost of a sample, fitted to the step times."),
    (
        "overhead share",
        "The share of a step in which the device does no useful arithmetic. Fitted: 1 − slope × batch ÷ step time, on "
        "any machine. Traced: 1 − time with a kernel or operation running ÷ step time, from a profiler trace.",
    ),
    (
        "traced parts",
        "A profiled step divided without gaps or overlaps: compute, copies to and from the device, waiting for input, "
        "launch and other work of the host, and the rest.",
    ),
    (
        "profiled ÷ unprofiled",
        "How much longer a step takes under the profiler. Above 1.3 the traced parts are not to be trusted.",
    ),
    (
        "crossover",
        "A batch size at which the faster target changes, with a 95 % interval: the batches at which a tie cannot be "
        "ruled out, judged by how much separate worker processes differ.",
    ),
    ("lead", "The batch from which a target is ahead by at least a margin (5 % unless chosen)."),
    ("verdict", "What the rounds allow us to say: a crossover, one target ahead throughout, a tie, or inconclusive."),
    ("frontier", "Over depth, width and batch, the line where both targets take equally long, with its 95 % bounds."),
    (
        "gradient noise scale",
        "How large a batch must be before its gradient is more signal than noise. Far below it, twice the batch halves "
        "the steps to a loss; far above it, the steps hardly change.",
    ),
    (
        "time to loss",
        "Steps to reach a given loss on held-out samples times the step time. The steps at other batches than the one "
        "that really trained are predicted from the gradient noise scale.",
    ),
    (
        "modelled GPU",
        "A card from the catalogue, or one of your own, whose step times a hardware model computes from its facts and "
        "from what the framework costs on this machine's CPU. The interval holds how far the model was off for cards "
        "that it had not been fitted to. No worker runs for it.",
    ),
    ("host overhead", "What the framework spends on the CPU for a step and for each operation, whatever the device."),
    ("measured, recorded, modelled", "Measured here and now; measured elsewhere; computed from a hardware model."),
    (
        "interpolated, predicted",
        "Interpolated: computed between measured settings. Predicted: computed from measured parts, such as a time to "
        "a loss. Both carry an interval, and neither was measured itself.",
    ),
)
RULES = (
    (
        "One process for each target",
        "Each target runs in a worker process of its own. A CPU worker cannot see any GPU, and a GPU worker "
        "proves afterwards that the work was really there.",
    ),
    (
        "The framework's own step",
        "We time the compiled train or predict function that Keras itself runs in `fit` and `predict`, not a "
        "wrapper around it.",
    ),
    (
        "Honest synchronisation",
        "A GPU returns before it has finished. The clock stops only after the device says that it is done, once "
        "for each block, because doing so in every step would slow the step.",
    ),
    (
        "Blocks long enough for the clock",
        "A block lasts at least 20 ms, so that reading the clock is less than a thousandth of it.",
    ),
    (
        "Warm up until steady",
        "The first call traces and compiles, and caches fill. Samples count only once successive windows agree; "
        "what that took is recorded beside the step time.",
    ),
    (
        "Interleaved rounds",
        "Targets take turns, first A then B, then B then A. Drift, turbo clocks and neighbours hit both alike and "
        "cancel in the ratio of a round.",
    ),
    (
        "Spread over time and processes",
        "Workers are restarted and rounds are spread over the sweep, because two processes of the same program "
        "differ by more than two neighbouring rounds do. Each process counts as one observation of the lead. A sweep "
        "too short for three has its intervals widened by how much processes were seen to differ elsewhere.",
    ),
    (
        "Stop on evidence",
        "A sweep ends when every crossover's interval is narrow enough or, without a crossover, when every cell "
        "is; else when the time is used. The table says for each cell why its sampling stopped.",
    ),
    (
        "Time goes where the answer is",
        "After a coarse grid, new batch sizes are measured inside the bracket where the lead changes.",
    ),
    (
        "Nothing is averaged away",
        "Every round is stored. All statistics are derived from the rounds each time.",
    ),
    (
        "One measurement at a time",
        "A lock on the machine, and a log of what other processes did meanwhile, which becomes a warning where it "
        "mattered.",
    ),
    (
        "A step divided without remainder",
        "In a profiler trace every instant of a step goes to the first that is active of: compute, copy to the host, "
        "copy between devices, copy to the device, waiting for input, launch and other work of the host. The parts "
        "sum to the step exactly. A profiler slows small steps, so profiled over unprofiled time stands beside it.",
    ),
    (
        "Remedies are tried, not guessed",
        "A diagnosis measures each remedy beside the step as it is, in the same rounds and in several starts of the "
        "workers, and recommends only what gains at least 3 % beyond its interval. The crossover is then measured "
        "anew with what helps.",
    ),
    (
        "A pipeline in its stride",
        "A tf.data pipeline that idles goes on filling its buffers. Every block therefore opens a fresh one, lets it "
        "run until it is in its stride, is timed, and drops it.",
    ),
    (
        "A map from few settings",
        "On the Frontier page the corners and the middle of the map come first; then the setting is measured where a "
        "tie is most in doubt for the time that it takes, again in each start of the workers.",
    ),
    (
        "The largest batch is tried, safely",
        "What fits is predicted, then confirmed in fresh processes that end themselves at the limit, so that the "
        "machine neither swaps nor kills anything. How often “fits” turned out wrong is counted and shown.",
    ),
    (
        "Failures are results",
        "Out of memory, a crash, a hang or a NaN loss is stored and shown as the outcome of its cell; the sweep "
        "goes on.",
    ),
)
NO_GPU_ADVICE = (
    "An NVIDIA card in this computer: install its driver, then check that `nvidia-smi` lists the card.",
    "The driver is there: install TensorFlow's CUDA libraries with `pip install -r requirements-gpu.txt` and restart.",
    "On Windows: TensorFlow uses a GPU only inside WSL2; install and start Breakeven there.",
    "The GPU is in another computer: run `python -m core sweep … --out run.json` there and import the file in History.",
)

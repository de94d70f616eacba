"""A step on PyTorch, through Keras or native: synchronised, and watched for compilation during measured steps."""

from __future__ import annotations

from typing import Any

from core.worker.step import Step
from core.worker.torch import compiled
from core.worker.torch.device import Device


class TorchStep(Step):
    """A step that, if ``is_compiled``, is ``settled`` once its cell is warm: any later compilation is an error."""

    device: Device
    is_compiled = False
    settled = False

    def wait(self, last: Any) -> None:  # noqa: ARG002
        self.device.wait()

    def settle(self, model: object, breaks: tuple[str, ...] = (), replayed: bool = False) -> None:
        """Check with :func:`compiled.check` that the steady step of ``model`` is compiled, and mark it as settled."""
        shapes = tuple(tuple(each.shape) for each in next(self.iterator))
        compiled.check((id(model), shapes), breaks, replayed)
        compiled.begin()
        self.settled = True

    def run(self, steps: int) -> float:
        ms = super().run(steps)
        if self.is_compiled and self.settled:
            compiled.check_settled()
        return ms

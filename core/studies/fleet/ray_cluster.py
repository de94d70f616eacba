"""Ray as a fleet's cluster: one actor per machine, which has all of its CPUs and GPUs. The only module that imports
Ray.

An actor is placed by the label of its node, waits there until the whole machine is free, and is polled for what is new
(:mod:`core.studies.fleet.node`). It ends with this program, however that ends, and its workers with it. It runs this
program's own code, which is sent along; frameworks must be installed there.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.base.schema import UserError
from core.base.text import clean
from core.rounds.run import MAX_NAME
from core.studies.fleet.cluster import Heard, Node, NodeLost
from core.studies.fleet.node import NodeRun
from core.studies.fleet.record import MAX_LABELS

CODE = Path(__file__).parents[2]
"""This package, which is sent to the nodes."""
NOT_SENT = ("**/__pycache__/**", "dashboard/**", "data/hardware_*.json", "figures/fonts/**")
NODE_LABEL = "ray.io/node-id"
INSTALL = "pip install -r requirements-fleet.txt"
AT_ONCE = 4  # concurrent calls of one actor: a waiting question, and a request to stop
LOOK_EVERY_S = 2.0
STARTS_S = 60.0
"""Time for which a process missing on a free machine is assumed to be starting."""
MAX_WHY = 300
MAX_PORT = 65_535
REACH_S = 5.0
START = "Start one with “ray start”, or name another."
CAUSE = re.compile(r"[\w.]+(Error|Exception): \S")


class RayCluster:
    """:class:`core.studies.fleet.cluster.Cluster` on Ray. ``actor`` is what runs on a node, replaced in tests.

    Raises UserError if Ray is not installed or no cluster answers at ``address`` (``auto``, ``host:port`` or
    ``ray://host:port``).
    """

    remedy = "Set RAY_worker_niceness=0 in the environment of “ray start” on its node, and start that again."

    def __init__(self, address: str, actor: type[NodeRun] = NodeRun) -> None:
        self._ray = connected(address)
        self._actor = actor
        self._actors: dict[str, Any] = {}
        self._asked: dict[Any, str] = {}
        self._free_s: dict[str, float] = {}
        self._looked_s = time.monotonic()

    def nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(key=each["NodeID"], name=each["NodeManagerHostname"], labels=labels_of(each)) for each in self._there()
        )

    def begin(self, key: str, run: bytes) -> None:
        there = next((each for each in self._there() if each["NodeID"] == key), None)
        if there is None:
            raise NodeLost("Its node has left the cluster.")
        resources = there["Resources"]
        self._free_s.pop(key, None)
        if self._is_free(key, resources):
            self._free_s[key] = time.monotonic()
        remote: Any = self._ray.remote(self._actor)
        actor = remote.options(
            num_cpus=resources["CPU"],
            num_gpus=resources.get("GPU", 0),
            label_selector={NODE_LABEL: key},
            max_restarts=0,
            max_concurrency=AT_ONCE,
        ).remote()
        self._actors[key] = actor
        self._asked[actor.begin.remote(run)] = key  # answers None as soon as the actor is placed

    def ask(self, key: str, question: int, known: int, hold_s: float) -> None:
        if (actor := self._actors.get(key)) is not None:
            self._asked[actor.take.remote(question, known, hold_s)] = key

    def heard(self, wait_s: float) -> Sequence[Heard]:
        refs = list(self._asked)
        if not refs:
            time.sleep(wait_s)
            return ()
        self._ray.wait(refs, num_returns=1, timeout=wait_s, fetch_local=False)
        ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        found = [Heard(self._asked.pop(ref), self._said(ref)) for ref in ready]
        return [*found, *self._left({heard.key for heard in found})]

    def busy(self, key: str) -> str:
        if time.monotonic() - self._free_s.get(key, float("-inf")) < STARTS_S:
            return "Ray is starting a process on it."
        return "Other work holds CPUs or GPUs of it; it is measured when all of them are free."

    def cancel(self, key: str) -> None:
        if (actor := self._actors.get(key)) is not None:
            actor.cancel.remote()

    def drop(self, key: str) -> None:
        actor = self._actors.pop(key, None)
        self._asked = {ref: other for ref, other in self._asked.items() if other != key}
        if actor is not None:
            self._ray.kill(actor)

    def close(self) -> None:
        for key in tuple(self._actors):
            self.drop(key)
        self._ray.shutdown()

    def _there(self) -> list[dict[str, Any]]:
        """Return nodes that are alive and can compute. Raises UserError."""
        try:
            return [each for each in self._ray.nodes() if each["Alive"] and each["Resources"].get("CPU")]
        except Exception as error:  # Ray's own errors have no common base
            raise UserError(f"The Ray cluster does not answer: {_why(error)}") from None

    def _is_free(self, key: str, total: dict[str, float]) -> bool:
        """Tell whether all of a machine is available now, as far as Ray reports."""
        with suppress(Exception):  # not part of Ray's public interface
            free = self._ray._private.state.available_resources_per_node()[key]
            return all(free.get(name, 0) >= total.get(name, 0) for name in ("CPU", "GPU"))
        return False

    def _said(self, ref: Any) -> object:
        try:
            return self._ray.get(ref)
        except Exception as error:  # the actor's process or node failed, or it raised
            return NodeLost(f"Its measuring process is gone: {_why(error)}")

    def _left(self, told: set[str]) -> list[Heard]:
        """Return machines with open questions whose node is gone: an actor not yet placed would wait for ever."""
        if time.monotonic() - self._looked_s < LOOK_EVERY_S:
            return []
        self._looked_s = time.monotonic()
        there = {each["NodeID"] for each in self._there()}
        gone = set(self._asked.values()) - there - told
        return [Heard(key, NodeLost("Its node has left the cluster.")) for key in gone]


def connected(address: str) -> Any:
    """Return the module ray, connected. Raises UserError."""
    try:
        import ray
    except ImportError:
        raise UserError(f"Ray is not installed here; run “{INSTALL}”.") from None
    if ray.is_initialized():
        raise UserError("This program is connected to a Ray cluster already; end what uses it first.")
    _check_reachable(address)
    try:
        ray.init(
            address=address,
            namespace="breakeven",
            runtime_env={"py_modules": [str(CODE)], "excludes": list(NOT_SENT)},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except ImportError as error:
        raise UserError(f"{clean(address)} needs more of Ray than is installed here: {_why(error)}") from None
    except Exception as error:  # no cluster, another version, no such host
        raise UserError(f"No Ray cluster answers at {clean(address)}: {_why(error)} {START}") from None
    return ray


def _check_reachable(address: str) -> None:
    """Raise UserError if nothing listens at an address; Ray itself would try for minutes."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit() or int(port) > MAX_PORT:
        raise UserError(
            f"“{clean(address)}” is no address of a Ray cluster; accepted are auto, host:port, ray://host:port."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
    except OSError as error:
        raise UserError(f"No Ray cluster answers at {clean(address)}: {_why(error)} {START}") from None


def labels_of(node: dict[str, Any]) -> dict[str, str]:
    """Return a node's labels, including Ray's own, within the limits of a record."""
    labels = {str(name): str(value) for name, value in (node.get("Labels") or {}).items()}
    kept = {clean(name)[:MAX_NAME]: clean(value)[:MAX_NAME] for name, value in labels.items() if name and value}
    return dict(sorted(kept.items())[:MAX_LABELS])


def _why(error: Exception) -> str:
    """Return an error of Ray's as one line that ends a sentence: the cause if it quotes a traceback, else its first
    line.
    """
    lines = [clean(line).strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    text = next((line for line in reversed(lines) if CAUSE.match(line)), lines[0])
    return f"{text[:MAX_WHY].rstrip('.: ')}."

"""Ray as a fleet's cluster: one actor per machine, which has all of its CPUs and GPUs. The only module that imports
Ray.

A placement group reserves the whole machine, chosen by the label of its node; once that is free, an actor measures
there (:mod:`core.studies.fleet.node`) and is polled. Both end with this program, however that ends, and the actor's
workers with it. It runs this program's own code, which is sent along; frameworks must be installed there.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base.schema import UserError
from core.base.text import clean
from core.rounds.run import MAX_NAME, Run
from core.studies.fleet.cluster import NODE_ID_LABEL, Answer, Node, NodeLost, Update
from core.studies.fleet.node import NodeRun
from core.studies.fleet.record import MAX_LABELS

CODE = Path(__file__).parents[2]
"""This package, which is sent to the nodes."""
NOT_SENT = ("**/__pycache__/**", "dashboard/**", "data/hardware_*.json", "figures/fonts/**")
INSTALL = "pip install -r requirements-fleet.txt"
MAX_CONCURRENCY = 3  # calls of one actor: the measurement, a poll, and a request to stop
CHECK_NODES_EVERY_S = 2.0
MAX_WHY = 300
MAX_PORT = 65_535
REACH_S = 5.0
START = "Start one with “ray start”, or name another."
CAUSE = re.compile(r"[\w.]+(Error|Exception): \S")


@dataclass(frozen=True)
class _Placement:
    """Ray's handles of one machine's run. ``reserved`` is ready once the whole machine is reserved for it."""

    group: Any
    reserved: Any
    actor: Any


class RayCluster:
    """:class:`core.studies.fleet.cluster.Cluster` on Ray. ``actor`` is what runs on a node, replaced in tests.

    Raises UserError if Ray is not installed or no cluster answers at ``address`` (``auto``, ``host:port`` or
    ``ray://host:port``).
    """

    remedy = "Set RAY_worker_niceness=0 in the environment of “ray start” on its node, and start that again."

    def __init__(self, address: str, actor: type[NodeRun] = NodeRun) -> None:
        self._ray = connected(address)
        self._actor = actor
        self._placements: dict[str, _Placement] = {}
        self._polls: dict[Any, str] = {}
        self._nodes_checked_s = time.monotonic()

    def nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(key=node["NodeID"], name=node["NodeManagerHostname"], labels=labels_of(node)) for node in self._alive()
        )

    def begin(self, key: str, run: Run) -> None:
        node = next((node for node in self._alive() if node["NodeID"] == key), None)
        if node is None:
            raise NodeLost("Its node has left the cluster.")
        cpus, gpus = node["Resources"]["CPU"], node["Resources"].get("GPU", 0)
        bundle = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
        group = self._ray.util.placement_group([bundle], bundle_label_selector=[{NODE_ID_LABEL: key}])
        remote: Any = self._ray.remote(self._actor)
        actor = remote.options(
            num_cpus=cpus,
            num_gpus=gpus,
            scheduling_strategy=self._ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(group),
            max_restarts=0,
            max_concurrency=MAX_CONCURRENCY,
        ).remote()
        actor.measure.remote(run)
        self._placements[key] = _Placement(group, group.ready(), actor)

    def poll(self, key: str, last_seq: int) -> None:
        if (placement := self._placements.get(key)) is not None:
            self._polls[placement.actor.poll.remote(last_seq)] = key

    def answers(self, wait_s: float) -> Sequence[Answer]:
        refs = list(self._polls)
        if not refs:
            time.sleep(wait_s)
            return ()
        self._ray.wait(refs, num_returns=1, timeout=wait_s, fetch_local=False)
        ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        answers = [Answer(self._polls.pop(ref), self._result(ref)) for ref in ready]
        return [*answers, *self._left({answer.key for answer in answers})]

    def pending(self, key: str) -> str:
        reserved, _ = self._ray.wait([self._placements[key].reserved], timeout=0, fetch_local=False)
        if reserved:
            return "Ray is starting a process on it."
        return "Other work holds CPUs or GPUs of it; it is measured when all of them are free."

    def cancel(self, key: str) -> None:
        if (placement := self._placements.get(key)) is not None:
            placement.actor.cancel.remote()

    def drop(self, key: str) -> None:
        self._polls = {ref: other for ref, other in self._polls.items() if other != key}
        if (placement := self._placements.pop(key, None)) is not None:
            self._ray.kill(placement.actor)
            self._ray.util.remove_placement_group(placement.group)

    def close(self) -> None:
        for key in tuple(self._placements):
            self.drop(key)
        self._ray.shutdown()

    def _alive(self) -> list[dict[str, Any]]:
        """Return nodes that are alive and can compute. Raises UserError."""
        try:
            return [node for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        except Exception as error:  # Ray's own errors have no common base
            raise UserError(f"The Ray cluster does not answer: {_why(error)}") from None

    def _result(self, ref: Any) -> Update | NodeLost | None:
        try:
            update: Update = self._ray.get(ref)
        except self._ray.exceptions.ActorUnavailableError:  # the connection broke, the actor may still be there
            return None
        except Exception as error:  # the actor's process or node failed, or it raised
            return NodeLost(f"Its measuring process is gone: {_why(error)}")
        return update

    def _left(self, answered: set[str]) -> list[Answer]:
        """Return machines polled whose node is gone: an actor not yet placed would wait for ever."""
        if time.monotonic() - self._nodes_checked_s < CHECK_NODES_EVERY_S:
            return []
        self._nodes_checked_s = time.monotonic()
        with suppress(UserError):  # a cluster that does not answer now may later
            gone = set(self._polls.values()) - {node["NodeID"] for node in self._alive()} - answered
            return [Answer(key, NodeLost("Its node has left the cluster.")) for key in gone]
        return []


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

"""Differences between the environments of a stored run and of a check. Pure."""

from __future__ import annotations

from core.evidence import Environment


def differences(then: Environment | None, now: Environment) -> tuple[str, ...]:
    """Return one sentence per difference that a step time may depend on."""
    if then is None:
        return ("The stored run does not say on which machine it was measured.",)
    found = []
    versions = [
        f"{name} {then.versions.get(name, 'none')} then, {now.versions.get(name, 'none')} now"
        for name in sorted({*then.versions, *now.versions})
        if then.versions.get(name) != now.versions.get(name)
    ]
    if then.python != now.python:
        versions.append(f"Python {then.python} then, {now.python} now")
    if versions:
        found.append(f"Other versions: {'; '.join(versions)}.")
    settings = [
        f"{what} {before} then, {after} now"
        for what, before, after in (
            ("usable cores", then.usable_cores, now.usable_cores),
            ("frequency governor", then.governor, now.governor),
            ("operating system", then.os, now.os),
            ("GPUs", _gpus(then), _gpus(now)),
        )
        if before is not None and after is not None and before != after
    ]
    if settings:
        found.append(f"Other settings: {'; '.join(settings)}.")
    return tuple(found)


def _gpus(environment: Environment) -> str:
    return ", ".join(f"{gpu.name} (driver {gpu.driver or 'unknown'})" for gpu in environment.gpus) or "none"

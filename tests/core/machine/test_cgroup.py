"""Control groups as handmade folders, each as a kind of container or service manager shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.machine.cgroup import KillCounts, Killed, Limits, read_kills, read_limits, who_killed
from core.worker.process import ROOT

V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = (
    "32 31 0:29 {top} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
)
NONE_V1 = "9223372036854771712"
MB = 1_000_000


def machine(root: Path, groups: str, mounts: str, files: dict[str, str]) -> Path:
    """Create a file system with such a /proc/self; ``files`` by their path below /sys/fs/cgroup."""
    written = {"proc/self/cgroup": groups, "proc/self/mountinfo": f"23 1 8:1 / / rw - ext4 /dev/root rw\n{mounts}"}
    for name, text in (written | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "expected"),
    [
        pytest.param("0::/", V2, {}, Limits(), id="nothing is limited"),
        pytest.param("", "", {}, Limits(), id="no control groups"),
        pytest.param("nonsense\n::", "1 2\n - cgroup2\n", {}, Limits(), id="not understood"),
        pytest.param(
            "0::/", V2,
            {"memory.max": "1600000000", "memory.current": "400000000", "cpu.max": "150000 100000",
             "memory.stat": "anon 1\ninactive_file 100000000\nactive_file 5"},
            Limits(1.5, 1600 * MB, 1300 * MB), id="own namespace, page cache counts as free",
        ),
        pytest.param(
            "0::/user.slice/app.scope", V2,
            {"user.slice/memory.max": "3000000000", "user.slice/memory.current": "2500000000",
             "user.slice/app.scope/memory.max": "2000000000", "user.slice/app.scope/memory.current": "100000000",
             "user.slice/cpu.max": "250000 100000", "user.slice/app.scope/cpu.max": "max 100000"},
            Limits(2.5, 2000 * MB, 500 * MB), id="an ancestor leaves less than the own group",
        ),
        pytest.param(
            "0::/a", V2, {"a/memory.max": "max", "a/memory.high": "900000000", "a/memory.current": "1000000000"},
            Limits(None, 900 * MB, 0), id="above memory.high nothing is free",
        ),
        pytest.param(
            "0::/../../elsewhere", V2, {"memory.max": "700000000", "memory.current": "0"},
            Limits(None, 700 * MB, 700 * MB), id="a path out of the namespace",
        ),
        pytest.param(
            "9:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n0::/", V1.format(top="/docker/ab"),
            {"memory/memory.limit_in_bytes": "1000000000", "memory/memory.usage_in_bytes": "900000000",
             "memory/memory.stat": "inactive_file 7\ntotal_inactive_file 300000000",
             "cpu,cpuacct/cpu.cfs_quota_us": "50000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            Limits(0.5, 1000 * MB, 400 * MB), id="version 1, the container's group is mounted as the root",
        ),
        pytest.param(
            "9:memory:/docker/ab/job\n3:cpu,cpuacct:/docker/ab", V1.format(top="/docker/ab"),
            {"memory/memory.limit_in_bytes": NONE_V1, "memory/memory.usage_in_bytes": "900000000",
             "memory/job/memory.limit_in_bytes": "700000000", "memory/job/memory.usage_in_bytes": "600000000"},
            Limits(None, 700 * MB, 100 * MB), id="version 1, a group below the container's",
        ),
        pytest.param(
            "9:memory:/\n3:cpu,cpuacct:/", V1.format(top="/"),
            {"memory/memory.limit_in_bytes": NONE_V1, "memory/memory.usage_in_bytes": "900000000"},
            Limits(), id="version 1 without a limit",
        ),
        pytest.param(
            "9:memory:/svc\n3:cpu,cpuacct:/\n0::/svc", V1.format(top="/"),
            {"memory/memory.limit_in_bytes": NONE_V1, "memory/memory.usage_in_bytes": "5",
             "memory/svc/memory.limit_in_bytes": "600000000", "memory/svc/memory.usage_in_bytes": "100000000",
             "cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000",
             "unified/svc/memory.max": "1"},
            Limits(None, 600 * MB, 500 * MB), id="both versions, memory in version 1",
        ),
        pytest.param(
            "0::/x", V2.replace("/sys/fs/cgroup", r"/sys/fs/cgroup/with\040blank"),
            {"with blank/x/memory.max": "800000000", "with blank/x/memory.current": "0"},
            Limits(None, 800 * MB, 800 * MB), id="mounted somewhere else",
        ),
    ],
)  # fmt: skip
def test_the_tightest_limit_counts(tmp_path: Path, groups: str, mounts: str, files: dict[str, str], expected: Limits):
    assert read_limits(machine(tmp_path, groups, mounts, files)) == expected


def test_who_killed_is_told_by_counters(tmp_path: Path) -> None:
    """Check version 2, in which an event counts in all groups above, too."""
    kills = "oom {oom}\noom_kill {kill}\noom_group_kill 0"
    files = {
        "pod/memory.max": "3000000000", "pod/memory.events": kills.format(oom=4, kill=4),
        "pod/c/memory.max": "1600000000", "pod/c/memory.events": kills.format(oom=2, kill=2),
    }  # fmt: skip

    def after(**changed: str) -> Killed:
        root = machine(tmp_path, "0::/pod/c", V2, files)
        before = read_kills(root)
        renamed = {f"{name.replace('_', '/')}/memory.events": text for name, text in changed.items()}
        return who_killed(before, read_kills(machine(tmp_path, "0::/pod/c", V2, files | renamed)))

    own = after(pod_c=kills.format(oom=3, kill=3), pod=kills.format(oom=5, kill=5))
    assert (own.by, own.limit_bytes, own.outcome) == ("container", 1600 * MB, "out_of_memory")
    assert "1.6 GB" in own.words
    assert after(pod_c=kills.format(oom=2, kill=3), pod=kills.format(oom=5, kill=5)).limit_bytes == 3000 * MB
    assert after(pod_c=kills.format(oom=2, kill=3)) == Killed(by="machine")
    assert after(pod=kills.format(oom=5, kill=5)) == Killed(by="unknown")  # another container of the pod
    assert (after().by, after().outcome) == ("unknown", "crashed")


def test_who_killed_in_version_1_and_where_nothing_is_counted(tmp_path: Path) -> None:
    def counts(kills: int, most: int) -> KillCounts:
        files = {
            "memory/svc/memory.limit_in_bytes": "600000000", "memory/svc/memory.max_usage_in_bytes": str(most),
            "memory/svc/memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}",
        }  # fmt: skip
        return read_kills(machine(tmp_path, "9:memory:/svc", V1.format(top="/"), files))

    assert who_killed(counts(0, 9), counts(1, 599_990_000)) == Killed(by="container", limit_bytes=600 * MB)
    assert who_killed(counts(0, 9), counts(1, 500_000_000)) == Killed(by="machine")
    assert who_killed(counts(1, 9), counts(1, 600_000_000)) == Killed(by="unknown")
    nothing = read_kills(machine(tmp_path / "bare", "0::/", V2, {}))
    assert who_killed(nothing, nothing) == Killed(by="unknown")


@pytest.fixture(params=["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"])
def real_group(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Yield a group of 300 MB below our own, with swap on top or within; skip if none can be made."""
    own = next(
        (line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in line), ""
    )
    group = Path(f"/sys/fs/cgroup/memory{own}/breakeven-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text("300000000")
        (group / request.param).write_text("300000000")
    except OSError:
        pytest.skip("needs the right to make control groups of version 1")
    yield group
    group.rmdir()


HUNGRY = """
import os, subprocess, sys
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
from core.machine.cgroup import read_kills, read_limits, who_killed
print(read_limits().memory_bytes, flush=True)
before = read_kills()
print(subprocess.run([sys.executable, "-c", "bytearray(b'x') * 900_000_000"]).returncode)
print(who_killed(before, read_kills()).words)
"""


@pytest.mark.skipif(not Path("/sys/fs/cgroup/memory").exists(), reason="control groups of version 1")
def test_a_real_kill_is_told_from_others(real_group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HUNGRY, str(real_group)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    limit, code, words = done.stdout.splitlines()
    assert abs(int(limit) - 300_000_000) < 4096 * 16
    assert code == "-9"
    assert "300 MB" in words

"""The CPU packages' energy from a folder like Linux's powercap."""

from pathlib import Path

import pytest

from core.machine.meter import ABSENT, REFUSED, Powercap

RANGE_UJ = 65_532_610_987


def zone(root: Path, name: str, called: str = "package-0", energy_uj: int = 0) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{called}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    count(folder, energy_uj)
    return folder


def count(folder: Path, energy_uj: int) -> None:
    (folder / "energy_uj").write_text(f"{energy_uj}\n")


def test_all_packages_count_and_nothing_else(tmp_path: Path) -> None:
    zones = [
        zone(tmp_path, "intel-rapl:0"),
        zone(tmp_path, "intel-rapl:1", "package-1"),
        zone(tmp_path, "intel-rapl:2", "psys"),  # the whole platform
        zone(tmp_path, "intel-rapl:0:0", "core"),  # within the package
        zone(tmp_path, "intel-rapl:0:1", "dram"),
        zone(tmp_path, "intel-rapl-mmio:0"),  # the same package once more
    ]
    (tmp_path / "intel-rapl").mkdir()
    powercap = Powercap(tmp_path)
    assert (powercap.refused, powercap.joules()) == ("", 0.0)
    for number, folder in enumerate(zones, start=1):
        count(folder, 1_000_000 * 10**number)
    assert powercap.joules() == pytest.approx(10.0 + 100.0)
    count(zones[0], 15_000_000)
    assert powercap.joules() == pytest.approx(115.0)


def test_a_counter_that_starts_again_loses_nothing(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0", energy_uj=RANGE_UJ - 3_000_000)
    powercap = Powercap(tmp_path)
    count(package, 4_000_000)
    assert powercap.joules() == pytest.approx(7.0)
    count(package, 6_000_000)
    assert powercap.joules() == pytest.approx(9.0)
    (package / "max_energy_range_uj").unlink()
    count(package, 1_000_000)
    assert powercap.joules() is None, "from where it started again is not known"
    count(package, 3_000_000)
    assert powercap.joules() == pytest.approx(11.0)


def test_a_counter_for_root_only_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zone(tmp_path, "intel-rapl:0")
    read = Path.read_text

    def denied(path: Path) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied")
        return read(path)

    monkeypatch.setattr(Path, "read_text", denied)
    powercap = Powercap(tmp_path)
    assert (powercap.refused, powercap.joules()) == (REFUSED, None)
    assert "/sys/class/powercap/intel-rapl:*/*_uj" in REFUSED


@pytest.mark.parametrize("there", [True, False])
def test_a_machine_without_counters_says_so(tmp_path: Path, there: bool) -> None:
    powercap = Powercap(tmp_path if there else tmp_path / "none")
    assert (powercap.refused, powercap.joules()) == (ABSENT, None)


def test_a_counter_that_goes_away_is_not_a_number(tmp_path: Path) -> None:
    package = zone(tmp_path, "intel-rapl:0")
    powercap = Powercap(tmp_path)
    (package / "energy_uj").write_text("garbage")
    assert powercap.joules() is None

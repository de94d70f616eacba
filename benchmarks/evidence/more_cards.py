"""Cards of published rows that the catalogue lacks: too old, or from laptops and workstations.

Rates are at the boost clock, as in the catalogue: fp32 outside tensor cores, tensor cores dense with sums in fp32.
GeForce cards of Turing sum in fp32 at half their rate with sums in fp16; Quadro and RTX A cards do not. Multiprocessors
and L2 caches are from the chip's whitepaper, cut down in proportion to its memory.
"""

from __future__ import annotations

from core.hardware.catalogue import Fact, GpuSpec, make_spec


def _card(
    name: str, architecture: str, link: str, fp32: float, bandwidth: float, memory: float, tdp: float,
    multiprocessors: int, l2_mb: float, source: str,
    tf32: float | None = None, half: float | None = None,
) -> GpuSpec:  # fmt: skip
    """Build a card from TFLOP/s, GB/s, GB, W and L2 in MB; facts of its class are filled in from the catalogue's."""
    values: dict[str, float | str | None] = {
        "architecture": architecture, "link": link, "fp32_tflops": fp32, "tf32_tflops": tf32, "half_tflops": half,
        "bandwidth_gb_s": bandwidth, "memory_gb": memory, "tdp_w": tdp, "multiprocessors": multiprocessors,
        "l2_mb": l2_mb,
    }  # fmt: skip
    facts = {key: Fact(value=value, source=f"NVIDIA {source}") for key, value in values.items()}
    return make_spec({"name": name, "title": name, "vendor": "NVIDIA"}, facts, None)


MORE_CARDS = {
    card.name: card
    for card in (
        _card("GRID-K520-die", "Kepler", "PCIe 3.0 x16", 2.45, 160, 4, 113, 8, 0.5, "GRID K520 datasheet: one of its "
              "two GK104, 1536 cores at 0.797 GHz, half of the board's 225 W"),
        _card("GTX-1080", "Pascal", "PCIe 3.0 x16", 8.87, 320, 8, 180, 20, 2, "GeForce GTX 1080 whitepaper: 2560 "
              "cores at 1.733 GHz"),
        _card("GTX-1650", "Turing", "PCIe 3.0 x16", 2.98, 128, 4, 75, 14, 1, "GeForce GTX 1650 specification: 896 "
              "cores at 1.665 GHz, GDDR5, no tensor cores"),
        _card("TITAN-V", "Volta", "PCIe 3.0 x16", 14.9, 653, 12, 250, 80, 4.5, "TITAN V specification: 5120 cores at "
              "1.455 GHz, 110 TFLOP/s of its tensor cores", half=110),
        _card("RTX-2060", "Turing", "PCIe 3.0 x16", 6.45, 336, 6, 160, 30, 3, "Turing whitepaper and GeForce RTX 2060 "
              "specification: 1920 cores at 1.68 GHz; half: 4 × fp32", half=25.8),
        _card("RTX-2080", "Turing", "PCIe 3.0 x16", 10.07, 448, 8, 215, 46, 4, "Turing whitepaper, RTX 2080 at the "
              "reference clock: 2944 cores at 1.71 GHz; half: 4 × fp32", half=40.3),
        _card("Quadro-RTX-5000-Mobile", "Turing", "PCIe 3.0 x16", 9.4, 448, 16, 110, 48, 4, "Quadro RTX 5000 mobile "
              "datasheet: 3072 cores, at most 9.4 TFLOP/s; half: 8 × fp32", half=75.2),
        _card("RTX-A4000", "Ampere", "PCIe 4.0 x16", 19.2, 448, 16, 140, 48, 4, "RTX A4000 datasheet: tensor cores "
              "153.4 TFLOP/s with sparsity, half of it dense", tf32=38.3, half=76.7),
        _card("RTX-A4500", "Ampere", "PCIe 4.0 x16", 23.7, 640, 20, 200, 56, 5, "RTX A4500 datasheet: tensor cores "
              "189.2 TFLOP/s with sparsity, half of it dense", tf32=47.3, half=94.6),
        _card("RTX-3500-Ada-Mobile", "Ada", "PCIe 4.0 x16", 23.0, 432, 12, 140, 40, 48, "RTX 3500 Ada Generation "
              "laptop datasheet: 5120 cores, at most 23 TFLOP/s; tf32 2 ×, half 4 × fp32, as RTX 6000 Ada has",
              tf32=46.0, half=92.0),
    )
}  # fmt: skip
"""Cards by name. The clocks of the two laptop cards depend on the laptop: their rates are upper limits."""

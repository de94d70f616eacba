"""Plotly figures from a run and its answer. Pure: no Streamlit, no storage, no clock."""

from core.figures.run_charts import compare_figure, noise_figure
from core.figures.style import CONFIG, chart_config, on_dark
from core.figures.sweep_charts import overhead_figure, speed_up_figure, step_time_figure, throughput_figure

__all__ = [
    "CONFIG",
    "chart_config",
    "compare_figure",
    "noise_figure",
    "on_dark",
    "overhead_figure",
    "speed_up_figure",
    "step_time_figure",
    "throughput_figure",
]

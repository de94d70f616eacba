"""Plotly figures from a run and its answer. Pure: no Streamlit, no storage, no clock."""

from core.figures.diagnosis_charts import diagnosis_figure
from core.figures.run_charts import compare_figure, noise_figure
from core.figures.style import CONFIG, chart_config, on_dark
from core.figures.sweep_charts import overhead_figure, speed_up_figure, step_time_figure, throughput_figure
from core.figures.timeline_chart import timeline_figure
from core.figures.trace_charts import trace_share_figure

__all__ = [
    "CONFIG",
    "chart_config",
    "compare_figure",
    "diagnosis_figure",
    "noise_figure",
    "on_dark",
    "overhead_figure",
    "speed_up_figure",
    "step_time_figure",
    "throughput_figure",
    "timeline_figure",
    "trace_share_figure",
]

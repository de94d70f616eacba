const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), paper = style.getPropertyValue("--paper").trim();
  for (const chart of document.querySelectorAll(".plotly-graph-div"))
    Plotly.relayout(chart, {"font.color": ink, paper_bgcolor: paper, plot_bgcolor: paper});
}
dark.addEventListener("change", paint);
paint();

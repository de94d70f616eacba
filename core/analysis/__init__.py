"""Pure functions from results to answers. Nothing here touches a framework, a clock, a file or Streamlit."""

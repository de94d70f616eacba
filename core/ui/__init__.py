"""What the pages share. The only package under core/ that imports Streamlit."""

"""The sweep: two targets over a range of batch sizes, and where the faster one changes."""

"""The sweep: one to six targets over a range of batch sizes, and where the fastest changes."""

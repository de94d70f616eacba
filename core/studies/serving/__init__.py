"""Serving: requests that come one by one, batched as they come, under a promised latency."""

"""The batch to train with: time to a loss, throughput and cost, from a run and the studies beside it."""

"""Published steps of whole networks, each rebuilt as a Breakeven workload."""

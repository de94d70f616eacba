"""Published steps of whole networks, each rebuilt as a workload of ours."""

"""The pipeline study: one step fed in many ways, and the cost of each."""

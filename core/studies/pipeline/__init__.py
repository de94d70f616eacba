"""The pipeline study: one step fed in many ways, and what each costs."""

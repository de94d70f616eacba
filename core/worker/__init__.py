"""Measuring: worker processes, the supervisor that schedules them, and the rules of timing."""

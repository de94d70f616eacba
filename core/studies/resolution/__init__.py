"""What differences this machine can show: one target measured against itself."""

"""The resolution study: one target measured against itself, to learn which differences this machine can show."""

"""The Fleet page: machines with their states, the comparison, and the form that starts a run or collects files."""

"""The Fleet page: machines with their states, the comparison, what starts a fleet run or collects files."""

"""Information on this machine, its load, and the lock that keeps measurements apart."""

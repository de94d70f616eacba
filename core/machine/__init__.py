"""What machine this is, what else runs on it, and the lock that keeps measurements apart."""

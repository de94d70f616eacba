"""Replaces modules by made-up ones on import, in a process with this on its path (:mod:`simulated.made_up`)."""

import sys

from simulated.made_up.replaced import Replaced

sys.meta_path.insert(0, Replaced())

"""On a process's path it replaces modules by made-up ones as they are imported (:mod:`tests.support.made_up`)."""

import sys

from tests.support.made_up.replaced import Replaced

sys.meta_path.insert(0, Replaced())

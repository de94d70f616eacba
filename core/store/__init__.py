"""Studies, kept in SQLite by default or PostgreSQL by URL; a sweep's rounds are committed as they arrive."""

from core.store.database import data_dir
from core.store.history import Store, only_readable
from core.store.rows import Summary
from core.store.tables import RunNotFound, StoreError

__all__ = ["RunNotFound", "Store", "StoreError", "Summary", "data_dir", "only_readable"]

"""Storage of studies, in SQLite by default or PostgreSQL by URL; a sweep's rounds are committed as they arrive."""

from core.store.catalogue import Imported
from core.store.database import data_dir
from core.store.history import Store
from core.store.listing import Deletion, Found, Summary, Wanted, only_readable
from core.store.removal import kept_until
from core.store.tables import RunNotFound, StoreError

__all__ = [
    "Deletion",
    "Found",
    "Imported",
    "RunNotFound",
    "Store",
    "StoreError",
    "Summary",
    "Wanted",
    "data_dir",
    "kept_until",
    "only_readable",
]

"""Runs, kept in SQLite by default or PostgreSQL by URL; rounds are committed as they arrive."""

from core.store.database import RunNotFound, StoreError, data_dir
from core.store.history import Store, new_run_id
from core.store.rows import RunSummary

__all__ = ["RunNotFound", "RunSummary", "Store", "StoreError", "data_dir", "new_run_id"]

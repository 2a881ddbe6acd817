"""One migrated Airflow for the whole package."""

from __future__ import annotations

import pytest

from tests.airflow.provider.laboratory import Laboratory, prepare


@pytest.fixture(scope="session")
def laboratory(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    return prepare(tmp_path_factory.mktemp("airflow"))

"""The project of tests that need no more than a shop with orders; a module that needs more builds its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.builders import Project, project_with_orders


@pytest.fixture(name="project")
def shop_with_orders(tmp_path: Path) -> Project:
    """Three orders in the shop and no manifest."""
    return project_with_orders(tmp_path)

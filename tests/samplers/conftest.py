from __future__ import annotations

from pathlib import Path

import pytest

from kit.stubs import build_nvml_stub


@pytest.fixture(scope="session")
def nvml_stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a stub that has every function."""
    return build_nvml_stub(tmp_path_factory.mktemp("nvml"))

"""Kernel tests compile into a cache of their own, so that a run is as good as a first one and leaves nothing behind."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def kernel_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield

from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.ptx"))
assert EXAMPLES, "the examples of the project are missing"


@pytest.fixture(params=EXAMPLES, ids=lambda path: path.stem)
def example(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def saxpy() -> Path:
    return next(path for path in EXAMPLES if path.stem == "saxpy")


@pytest.fixture
def block_sum() -> Path:
    return next(path for path in EXAMPLES if path.stem == "block_sum")

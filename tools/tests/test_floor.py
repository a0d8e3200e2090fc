"""The conformance floor rises and never sinks."""

import json
import subprocess

import pytest


@pytest.fixture
def floor(tool):
    return tool("conformance/floor")


def test_a_level_below_its_floor_is_named(floor):
    assert floor.below({"ops/forward": 5, "ops/errors": 2}, {"ops/forward": 4, "ops/errors": 2}) == [
        "ops/forward: 4 passed, the floor is 5"]
    assert floor.below({"ops/forward": 5}, {}) == ["ops/forward: 0 passed, the floor is 5"]


def test_a_run_with_fewer_passes_does_not_lower_the_floor(floor):
    assert floor.highest({"ops/forward": 5, "ops/errors": 2}, {"ops/forward": 4, "api/namespace": 1}) == {
        "api/namespace": 1, "ops/errors": 2, "ops/forward": 5}


def test_no_commit_lowered_the_floor(floor):
    def git(*arguments):
        return subprocess.run(["git", *arguments], cwd=floor.HERE, capture_output=True, text=True, check=True).stdout

    try:
        commits = git("log", "--format=%H", "--", floor.FLOOR.name).split()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not in a git checkout")
    now = json.loads(floor.FLOOR.read_text(encoding="utf-8"))
    for commit in commits:
        before = json.loads(git("show", f"{commit}:./{floor.FLOOR.name}"))
        for kind, levels in before.items():
            given_up = floor.GIVEN_UP.get(kind, {})
            kept = {level: passed + given_up.get(level, 0) for level, passed in now[kind].items()}
            assert floor.below(levels, kept) == [], f"{commit} had a higher floor"

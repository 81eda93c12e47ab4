"""Configurations whose keys stand twice."""

import pytest
import yaml

from configs.errors import UserError
from configs.load import load_config, read_yaml


def test_a_key_that_stands_twice_is_named_with_its_line(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("name: a\ncluster: {workers: 1}\nseed: 1\ncluster: {workers: 2}\n")
    with pytest.raises(UserError, match=r"the key cluster is duplicate.*line 4"):
        load_config(path)


@pytest.mark.parametrize("text", ["a: {b: 1, b: 2}", "a: [{b: 1, c: 2, b: 1}]", "a: 1\na: 1"])
def test_it_is_found_wherever_it_stands(text):
    with pytest.raises(yaml.YAMLError, match="is duplicate"):
        read_yaml(text)


@pytest.mark.parametrize(
    "text",
    [
        "one: &one {a: 1, b: 2}\nother: &other {<<: *one, b: 3}\nthird: *one",
        "first: {one: &one {a: 1, b: 2}, two: &two {<<: *one, b: 3}}\nother: {<<: *two}",
        "other: {a: 1, b: 3}\nnumbers: {1: a, '1': b}",
    ],
    ids=["beside", "merged before it is built", "other kinds of key"],
)
def test_what_an_anchor_brings_may_be_said_otherwise(text):
    assert read_yaml(text) == yaml.safe_load(text)
    assert read_yaml(text)["other"] == {"a": 1, "b": 3}


def test_no_object_is_made():
    with pytest.raises(yaml.YAMLError):
        read_yaml("!!python/object/apply:os.getcwd []")

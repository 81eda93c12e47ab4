import pytest

from configs.errors import UserError
from configs.load import apply_overrides, load_config


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b=2", {"a": {"b": 2}, "m": ["x", "y"]}),
        ("a.c.d=[1, two]", {"a": {"b": 1, "c": {"d": [1, "two"]}}, "m": ["x", "y"]}),
        ("m.1.C=0.5", {"a": {"b": 1}, "m": ["x", {"name": "y", "C": 0.5}]}),
        ("m.0=z", {"a": {"b": 1}, "m": ["z", "y"]}),
        ("n=a=b", {"a": {"b": 1}, "m": ["x", "y"], "n": "a=b"}),
    ],
)
def test_a_value_is_set_at_its_path(text, expected):
    assert apply_overrides({"a": {"b": 1}, "m": ["x", "y"]}, [text]) == expected


def test_the_given_tree_is_left_alone():
    tree = {"a": {"b": 1}, "m": ["x"]}
    apply_overrides(tree, ["a.b=2", "m.0.C=1"])
    assert tree == {"a": {"b": 1}, "m": ["x"]}


@pytest.mark.parametrize("text", ["a.b", "=1", "a.b.c=1", "m.7=1", "m.x=1", "a={"])
def test_a_path_that_cannot_be_set_is_refused_in_a_sentence(text):
    with pytest.raises(UserError, match="--set"):
        apply_overrides({"a": {"b": 1}, "m": ["x", "y"]}, [text])


def test_an_address_takes_the_place_of_a_local_cluster():
    address = "cluster.address=tcp://10.0.0.1:8786"
    assert load_config("default", [address]).cluster.address == "tcp://10.0.0.1:8786"
    with pytest.raises(UserError, match=r"workers must not be given with address"):
        load_config("default", [address, "cluster.workers=2"])


@pytest.mark.parametrize("sign", [",", ";", "|", "\t"])
def test_a_bare_separator_is_itself(sign):
    found = apply_overrides({}, [f"data.separator={sign}"])
    assert found == {"data": {"separator": sign}}

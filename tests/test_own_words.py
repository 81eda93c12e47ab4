import pytest

from configs.errors import UserError
from configs.load import dump_config, load_config, parse_config

WORDS = {
    "title": "Rents of Berlin",
    "row_noun": "flats",
    "description": "Made up for a **test**.",
    "titles": {"rent": "monthly rent", "age": "age of the tenant"},
    "units": {"rent": "euros", "age": "years"},
    "descriptions": {"size": "Living space, cellar | attic left out"},
}


def tree(**words):
    return {
        "name": "rents",
        "data": {
            "problem": "table",
            "path": "rents.csv",
            "target": "rent",
            "sensitive": "age",
            "numeric": ["size"],
            "categorical": ["district"],
            **words,
        },
        "methods": ["dummy", "krr_fkd"],
    }


def config_of(**words):
    return parse_config(tree(**words), "rents")


def test_words_change_no_digest():
    assert config_of(**WORDS).digest == config_of().digest
    other = config_of(titles={"rent": "net rent"})
    assert other.digest == config_of().digest
    assert config_of(numeric=["size", "rooms"]).digest != config_of().digest


def test_words_are_written_out_and_read_again(tmp_path):
    config = config_of(**WORDS)
    path = tmp_path / "config.yaml"
    path.write_text(dump_config(config))
    again = load_config(path).data
    assert (again.titles, again.units) == (config.data.titles, config.data.units)
    assert "titles" not in dump_config(load_config("default"))


def test_the_problem_speaks_in_the_users_words():
    problem = config_of(**WORDS).data.declaration
    assert problem.title == "Rents of Berlin"
    assert problem.target_unit == "euros"
    assert problem.titles["age"] == "age of the tenant"
    assert problem.row_noun == "flats"
    assert "Made up for a **test**." in problem.datasheet
    assert "| rent | target | monthly rent | euros |  |" in problem.datasheet
    assert "| size | number |  |  | Living space, cellar \\| attic left out |" in problem.datasheet


def test_without_words_names_serve():
    problem = config_of().data.declaration
    assert (problem.title, problem.target_unit) == ("rents.csv", "units of rent")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"titles": {"rnt": "monthly rent"}}, "rent"),
        ({"units": {"age": ""}}, "one line"),
        ({"titles": {"age": "two\nlines"}}, "one line"),
        ({"titles": {"age": "x" * 81}}, "80 characters"),
        ({"descriptions": {"age": "  "}}, "some text"),
    ],
)
def test_words_that_cannot_be_placed_are_refused(words, said):
    with pytest.raises(UserError, match=said):
        config_of(**words)


def test_declared_problems_have_their_own_words():
    with pytest.raises(UserError, match=r"data\.titles has a meaning for problem table only"):
        load_config("default", ["data.titles={racepctblack: race}"])

"""Tables of configurations: digests, prepared tables, joined tables, samples."""

import io
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from deadlines import patient
from numpy.testing import assert_allclose, assert_array_equal
from stored_files import stored

from configs.data import DataConfig
from configs.errors import UserError
from fkd.problems.encoder import Encoder
from tasks.data.census import write_synthetic_census
from tasks.data.columns import Category, Columns, to_table
from tasks.data.load import describe_rows, join_tables, load_table, prepared_name, read_prepared
from tasks.storage.files import pack_arrays
from tasks.storage.settings import Settings
from tasks.storage.store import BlobStore, open_store


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "home", None, None, None)


@pytest.fixture
def mirror(tmp_path):
    """A mirror of synthetic files, for states and years whose checksums are not known."""

    def make(state, year, rows=600):
        path = tmp_path / "mirror" / f"census/{year}/1-Year/csv_p{state.lower()}.zip"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_synthetic_census(path, state=state, year=year, rows=rows, seed=4)
        return Settings(tmp_path / "home", str(tmp_path / "mirror"), None, None)

    return make


def test_the_embedded_data_set_needs_no_network(settings):
    loaded = load_table(DataConfig(), settings)
    assert loaded.table.n == loaded.provenance["rows_used"] == 1993
    assert loaded.table.numeric.shape == (1993, 98)
    assert "racepctblack" not in loaded.table.numeric_names
    assert "racePctWhite" in loaded.table.numeric_names
    assert loaded.table.target_range == (0.0, 1.0)
    assert not loaded.provenance["synthetic"]


def test_configured_columns_are_dropped(settings):
    both = ("racepctblack", "racePctWhite")
    loaded = load_table(DataConfig(drop=both), settings)
    assert loaded.table.numeric.shape[1] == 97
    assert loaded.table.sensitive_names == ("racepctblack",)
    kept = load_table(DataConfig(drop=()), settings)
    assert kept.table.numeric.shape[1] == 99


def test_measured_columns_are_kept_with_the_removed_ones(settings):
    loaded = load_table(DataConfig(measure_on=("racePctWhite",)), settings)
    assert loaded.table.sensitive_names == ("racepctblack", "racePctWhite")
    assert loaded.table.S(["racePctWhite"]).shape == (1993, 1)


def test_a_second_call_reads_the_prepared_table(settings, monkeypatch):
    first = load_table(DataConfig(), settings)
    monkeypatch.setattr(BlobStore, "write", lambda *_: pytest.fail("prepared twice"))
    again = load_table(DataConfig(), settings)
    assert again.digest == first.digest
    assert again.provenance == first.provenance
    assert_array_equal(again.table.numeric, first.table.numeric)
    assert_array_equal(again.table.extra["fold"], first.table.extra["fold"])


@pytest.mark.parametrize("position", [3, 64, 1000, -5])
def test_a_damaged_prepared_table_is_prepared_again(settings, position):
    first = load_table(DataConfig(), settings)
    path = stored(settings, prepared_name(first.digest))
    content = path.read_bytes()
    spoilt = bytearray(content)
    spoilt[position] ^= 1
    path.write_bytes(spoilt)
    again = load_table(DataConfig(), settings)
    assert_array_equal(again.table.numeric, first.table.numeric)
    assert path.read_bytes() == content


def test_the_digest_depends_on_every_option_of_the_rows(settings):
    configs = [
        DataConfig(),
        DataConfig(sensitive=("racePctWhite",)),
        DataConfig(drop=()),
        DataConfig(problem="acs_income", source="synthetic", synthetic={"rows": 500}),
        DataConfig(problem="acs_income", source="synthetic", synthetic={"rows": 500, "seed": 1}),
        DataConfig(
            problem="acs_income", source="synthetic", synthetic={"rows": 500}, labels="codes"
        ),
        DataConfig(problem="acs_travel_time", source="synthetic", synthetic={"rows": 500}),
    ]
    assert len({load_table(data, settings).digest for data in configs}) == len(configs)


def test_the_digest_does_not_depend_on_later_options(settings):
    train, everything = DataConfig(), DataConfig(scale_on="all")
    assert load_table(train, settings).digest == load_table(everything, settings).digest


@pytest.mark.parametrize("problem", ["acs_income", "acs_travel_time"])
def test_synthetic_rows_are_labelled_everywhere(settings, problem):
    data = DataConfig(problem=problem, source="synthetic", synthetic={"rows": 800, "seed": 2})
    loaded = load_table(data, settings)
    assert loaded.provenance["synthetic"] is True
    assert loaded.provenance["datasheet"].startswith("**Synthetic data")
    assert describe_rows(loaded.provenance).startswith("SYNTHETIC")
    assert loaded.table.n > 100
    assert_allclose([loaded.table.y.min(), loaded.table.y.max()], [0.0, 1.0])
    assert set(loaded.table.extra) == {"PWGTP", "ST", "PUMA", "year"}


def test_a_synthetic_file_in_a_mirror_is_labelled_too(mirror):
    loaded = load_table(DataConfig(problem="acs_income", states=("WY",)), mirror("WY", 2018))
    assert loaded.provenance["synthetic"] is True
    assert loaded.provenance["files"][0]["name"] == "census/2018/1-Year/csv_pwy.zip"


def test_rows_of_states_and_years_are_concatenated(mirror):
    for state, year in [("WY", 2016), ("VT", 2016), ("WY", 2017)]:
        settings = mirror(state, year)
    settings = mirror("VT", 2017)
    data = DataConfig(problem="acs_travel_time", states=("WY", "VT"), year=(2016, 2017))
    table = load_table(data, settings).table
    assert set(zip(table.extra["ST"], table.extra["year"], strict=True)) == {
        (56, 2016),
        (50, 2016),
        (56, 2017),
        (50, 2017),
    }
    assert "ST" in table.categorical_names
    state = table.levels[table.categorical_names.index("ST")]
    assert set(state) == {"50", "56"}


def test_constant_columns_are_left_out_with_a_reason(mirror):
    data = DataConfig(problem="acs_travel_time", states=("WY",))
    loaded = load_table(data, mirror("WY", 2018))
    assert "ST" not in loaded.table.categorical_names
    assert loaded.provenance["columns_left_out"]["ST"] == "constant in these rows"


def test_rows_read_dropped_and_used_add_up(mirror):
    loaded = load_table(DataConfig(problem="acs_travel_time", states=("WY",)), mirror("WY", 2018))
    provenance = loaded.provenance
    assert provenance["rows_read"] == 600
    assert provenance["rows_used"] + sum(provenance["rows_dropped"].values()) == 600
    assert "works at home" in describe_rows(provenance)


def test_a_missing_poverty_ratio_is_filled_by_zero(mirror):
    loaded = load_table(
        DataConfig(problem="acs_travel_time", states=("WY",)), mirror("WY", 2018, rows=3000)
    )
    report = {line["column"]: line for line in loaded.provenance["columns"]}
    assert report["POVPIP"]["missing"] > 0
    assert np.isfinite(loaded.table.numeric).all()
    assert loaded.table.fills == {"POVPIP": 0.0}


@pytest.mark.parametrize("problem", ["acs_income", "acs_travel_time"])
def test_labels_can_be_encoded_by_their_codes(mirror, problem):
    settings = mirror("WY", 2018, rows=2000)
    data = DataConfig(problem=problem, states=("WY",))
    onehot = load_table(data, settings).table
    coded = load_table(data.model_copy(update={"labels": "codes"}), settings)
    table = coded.table
    assert table.categorical_names == ()
    assert set(table.numeric_names) == set(onehot.numeric_names + onehot.categorical_names)
    for name, codes, labels in zip(
        onehot.categorical_names, onehot.codes.T, onehot.levels, strict=True
    ):
        if name == "PUMA":  # unique among states
            continue
        expected = np.array([*(float(label) for label in labels), 0.0])[codes]
        assert_array_equal(table.numeric[:, table.numeric_names.index(name)], expected)
    encoder = Encoder.fit(table, scale="zscore")
    served = pd.DataFrame(table.numeric, columns=list(table.numeric_names)).replace(0.0, np.nan)
    filled = [name for name in encoder.input_columns if name in table.fills]
    assert filled
    served = served.fillna({name: 0.0 for name in table.numeric_names if name not in filled})
    assert_array_equal(encoder.transform_frame(served), encoder.transform(table))


def test_codes_that_are_no_numbers_are_refused_by_column():
    category = Category(np.array([0, 1]), ("OCCP10:10", "OCCP12:10"))
    names = ("AGEP", "WKHP", "PINCP", "PWGTP", "ST", "PUMA", "year")
    categories = dict.fromkeys(DataConfig(problem="acs_income").declaration.categorical, category)
    columns = Columns({name: np.array([1.0, 2.0]) for name in names}, categories, rows_read=2)
    with pytest.raises(ValueError, match="column COW must have codes that are numbers"):
        to_table(DataConfig(problem="acs_income", labels="codes"), columns)


def test_a_file_without_rows_of_the_problem_is_refused(mirror):
    settings = mirror("WY", 2018, rows=1)
    with pytest.raises(
        UserError, match=r"acs_income must keep at least one row|must not be constant"
    ):
        load_table(DataConfig(problem="acs_income", states=("WY",)), settings)


def test_a_folder_that_cannot_be_written_is_named(settings):
    settings.home.parent.mkdir(exist_ok=True)
    settings.home.write_text("a file where the folder should be")
    with pytest.raises(UserError, match=r"FKD_HOME must be a writable folder, but .*/home is not"):
        load_table(DataConfig(), settings)


STARVED = """
import resource, sys
from pathlib import Path
from configs.data import DataConfig
from configs.errors import UserError
from tasks.data.load import load_table
from tasks.storage.settings import Settings

settings = Settings(Path(sys.argv[1]), sys.argv[2], None, None)
load_table(DataConfig(problem="acs_income", states=("VT",)), settings)  # starts the threads
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 3_000_000, used + 3_000_000))
try:
    load_table(DataConfig(problem="acs_income", states=("WY",)), settings)
except UserError as error:
    sys.exit(str(error))
"""


def test_too_little_memory_is_a_user_error(mirror):
    mirror("VT", 2018, rows=100)
    settings = mirror("WY", 2018, rows=40_000)
    run = subprocess.run(
        [sys.executable, "-c", STARVED, settings.home, settings.mirror],
        capture_output=True,
        text=True,
        timeout=patient(200),
    )
    assert "not enough memory to load acs_income" in run.stderr
    assert len(list(stored(settings, "prepared").glob("*.arrays"))) == 1


def test_a_sample_is_drawn_once_and_counted(settings):
    whole = load_table(DataConfig(), settings)
    some, again = (load_table(DataConfig(sample=300), settings) for _ in range(2))
    assert some.table.n == 300
    assert some.provenance["rows_dropped"] == {"not drawn": 1693}
    assert "1,693 dropped (not drawn)" in describe_rows(some.provenance)
    assert_array_equal(some.table.target, again.table.target)
    assert some.digest != whole.digest
    assert some.table.target_range == whole.table.target_range
    pairs = {tuple(row) for row in whole.table.numeric}
    assert all(tuple(row) in pairs for row in some.table.numeric)


def test_a_sample_of_more_rows_than_there_are_is_all_of_them(settings):
    assert load_table(DataConfig(sample=5000), settings).table.n == 1993


def rents(path, rows, **changes):
    """The configuration of a table with a label, a group and a gap, whose rows these are."""
    names = ("rent", "age", "area", "town", "block")
    path.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]))
    keys = {"numeric": ("area",), "categorical": ("town",), "keep": ("block",), **changes}
    return DataConfig(problem="table", path=str(path), target="rent", sensitive=("age",), **keys)


OLD = [(500, 20, 30, "ulm", 1), (700, 40, 50, "bonn", 2), (600, 30, 45, "", 2)]
NEW = [(900, 35, 80, "aachen", 3), (650, 70, 40, "ulm", 4)]


def test_joined_tables_hold_the_rows_of_both(settings, tmp_path):
    old = load_table(rents(tmp_path / "old.csv", OLD), settings)
    new = load_table(rents(tmp_path / "new.csv", NEW), settings)
    joined = join_tables(old, new, settings)
    whole = load_table(rents(tmp_path / "whole.csv", OLD + NEW), settings).table
    for name, array in whole.arrays().items():
        assert_array_equal(joined.table.arrays()[name], array)
    assert len({old.digest, new.digest, joined.digest, join_tables(new, old, settings).digest}) == 4
    provenance = joined.provenance
    assert (provenance["rows_read"], provenance["rows_used"]) == (5, 5)
    assert [file["name"] for file in provenance["files"]] == ["old.csv", "new.csv"]
    assert provenance["parts"] == [old.digest, new.digest]
    again = join_tables(joined, new, settings)
    assert again.provenance["parts"] == [old.digest, new.digest, new.digest]


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([(*row[:3], "ulm", row[4]) for row in NEW], "town"),  # constant, so no input
        ([(*row[:4], f"b{row[4]}") for row in NEW], "block"),
    ],
)
def test_tables_of_other_columns_are_not_joined(settings, tmp_path, rows, column):
    old = load_table(rents(tmp_path / "old.csv", OLD), settings)
    new = load_table(rents(tmp_path / "new.csv", rows), settings)
    with pytest.raises(UserError, match=column):
        join_tables(old, new, settings)


def test_an_absent_table_is_none(settings):
    assert read_prepared(settings, "0" * 64) is None
    assert not list(open_store(settings).entries("prepared"))


def test_a_truncated_table_is_none(settings):
    loaded = load_table(DataConfig(), settings)
    store, name = open_store(settings), prepared_name(loaded.digest)
    assert [entry.name for entry in store.entries("prepared")] == [name]
    assert store.read(name) is not None
    path = settings.home / "store" / name
    path.write_bytes(path.read_bytes()[:-100])
    assert read_prepared(settings, loaded.digest) is None
    assert not path.exists()


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("something was unpickled",))


def test_a_pickle_in_the_store_is_refused_even_with_a_valid_checksum(settings):
    arrays = load_table(DataConfig(), settings).table.arrays()
    buffer = io.BytesIO()
    buffer.write(pack_arrays({**arrays, "provenance": np.array("{}")}))
    with zipfile.ZipFile(buffer, "a") as archive:
        content = io.BytesIO()
        np.lib.format.write_array_header_2_0(
            content, {"descr": "|O", "fortran_order": False, "shape": ()}
        )
        archive.writestr("extra.evil.npy", content.getvalue() + pickle.dumps(Bomb()))
    open_store(settings).write(prepared_name("a" * 64), buffer.getvalue())
    assert read_prepared(settings, "a" * 64) is None
    assert not open_store(settings).has(prepared_name("a" * 64))

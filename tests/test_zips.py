import zipfile

import pytest

from tasks.data.download import RemoteFile, UnsafeZipError, check_content, check_zip


@pytest.fixture
def write(tmp_path):
    def make(*members):
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members:
                archive.writestr(name, content)
        return path

    return make


@pytest.fixture
def file():
    return RemoteFile("x.zip", "http://host/x.zip", member=r"psam_p30\.csv")


def test_the_table_is_found_among_other_members(write, file):
    path = write(("README.pdf", "words"), ("psam_p30.csv", "AGEP\n1\n"))
    assert check_zip(path, file) == "psam_p30.csv"
    check_content(path, "psam_p30.csv")


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([], "it holds nothing"),
        ([("README.pdf", "words")], "it holds README.pdf"),
        ([("psam_p30.csv", "x"), ("PSAM_P30.CSV", "x")], "must hold one table"),
        ([(f"{i}", "x") for i in range(200)], "at most 100 members, got 200"),
        ([("psam_p30.csv", "0" * 10**7)], "would unpack"),
        ([("a/../../psam_p30.csv", "x")], "leaves its folder"),
    ],
)
def test_a_zip_that_is_not_the_publishers_is_refused(write, file, members, words):
    with pytest.raises(UnsafeZipError, match=words):
        check_zip(write(*members), file)


def test_an_encrypted_member_is_refused(write, file):
    path = write(("psam_p30.csv", "AGEP\n1\n"))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(UnsafeZipError, match="encrypted"):
        check_zip(path, file)


@pytest.mark.parametrize("content", [b"", b"PK", b"<html></html>", b"PK\x03\x04" + b"\0" * 100])
def test_what_is_no_zip_is_refused(tmp_path, file, content):
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(UnsafeZipError, match="no complete zip"):
        check_zip(path, file)


def test_a_table_whose_announced_size_lies_is_damaged(write):
    path = write(("psam_p30.csv", "AGEP\n" + "1\n" * 1000))
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02") + 24
    content[place : place + 4] = (100).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(UnsafeZipError, match="damaged"):
        check_content(path, "psam_p30.csv")

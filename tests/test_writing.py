"""Files that are written whole or not at all."""

import os
import stat
import threading

import pytest

from skdptune import _writing
from skdptune._writing import write_text
from skdptune.exceptions import InvalidParameterError, InvalidTypeError, OutputError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_usual_mode(tmp_path):
    path = tmp_path / "report.md"
    umask = os.umask(0o027)
    try:
        write_text(path, "a\r\nb\udc80")
    finally:
        os.umask(umask)
    assert path.read_bytes() == b"a\r\nb\\udc80" and mode(path) == 0o640
    assert os.listdir(tmp_path) == ["report.md"]


def test_an_old_file_keeps_its_mode(tmp_path):
    path = tmp_path / "report.md"
    path.write_text("old")
    path.chmod(0o604)
    write_text(str(path), "new")
    assert path.read_text() == "new" and mode(path) == 0o604


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    path = tmp_path / "report.md"
    path.write_text("old")

    def fail(*_):
        raise error

    monkeypatch.setattr(_writing.os, step, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        write_text(path, "new" * 1000)
    monkeypatch.undo()
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["report.md"]
    if isinstance(error, OSError):
        assert "No space left on device" in str(caught.value) and "report.md" in str(caught.value)


def test_a_reader_never_sees_half_a_file(tmp_path):
    path, seen, done = tmp_path / "report.md", set(), threading.Event()
    texts = [letter * 300_000 for letter in "ab"]
    write_text(path, texts[0])

    def read():
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for turn in range(20):
        write_text(path, texts[turn % 2])
    done.set()
    reader.join()
    assert seen <= set(texts)


def test_links_are_followed_and_stay_links(tmp_path):
    target, link, loose = tmp_path / "target", tmp_path / "link", tmp_path / "loose"
    target.write_text("old")
    link.symlink_to(target)
    loose.symlink_to(tmp_path / "not there yet")
    write_text(link, "new")
    write_text(loose, "made")
    assert link.is_symlink() and target.read_text() == "new"
    assert loose.is_symlink() and (tmp_path / "not there yet").read_text() == "made"


def test_what_is_no_plain_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join()
    assert got == ["through"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_errors_are_one_sentence(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path, tmp_path / "none" / "report.md", tmp_path / "file" / "report.md", tmp_path / "loop"):
        with pytest.raises(OutputError, match="path must be a file that can be written") as caught:
            write_text(path, "text")
        assert "\n" not in str(caught.value) and isinstance(caught.value, OSError)
    for path in ("", "a\0b"):
        with pytest.raises(InvalidParameterError, match="name of a file"):
            write_text(path, "text")
    for path in (3, 3.5, ["a"]):
        with pytest.raises(InvalidTypeError, match="path must be a file name"):
            write_text(path, "text")
    monkeypatch.setattr(_writing.os, "access", lambda *_: False)  # root may write anything
    with pytest.raises(OutputError, match="read-only"):
        write_text(tmp_path / "file", "text")
    assert (tmp_path / "file").read_text() == ""

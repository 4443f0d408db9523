"""Where a call stands: these tests make files of the user's and run them."""

import pytest

from kit.child import text_at
from trainperf.child.process import frames


def test_columns_count_characters_where_the_line_is_not_ascii(module):
    made = module("def f():\n    é = 'größe ☃'; x = frames.here(); return x\n")
    assert text_at(made.f()) == "frames.here()"


def test_library_files_are_not_the_users():
    import json

    assert not frames.is_users(json.__file__)
    assert not frames.is_users(pytest.__file__)
    assert not frames.is_users("<string>")
    assert not frames.is_users("")
    assert not frames.is_users("/home/me/env/lib/python3.12/site-packages/x/y.py")
    assert not frames.is_users("/tmp/__autograph_generated_file1a2b.py")
    assert not frames.is_users(frames.__file__)
    assert frames.is_users("/home/me/train.py")


def test_a_folder_of_the_path_that_packages_were_installed_in_holds_libraries(
    tmp_path, monkeypatch
):
    installed, own, here = tmp_path / "lib", tmp_path / "own", tmp_path / "here"
    for folder in (installed, own, here):
        (folder / "tqdm").mkdir(parents=True)
        monkeypatch.syspath_prepend(str(folder))
    for folder in (installed, here):
        (folder / "tqdm-4.dist-info").mkdir()
    assert not frames.is_users(str(installed / "tqdm" / "std.py"))
    assert frames.is_users(str(own / "tqdm" / "std.py"))
    assert frames.is_users(str(here / "train.py"))


def test_frames_of_an_objects_own_constructor_are_passed_over(module):
    made = module(
        """
        class Base:
            def __init__(self):
                self.site = frames.here(skip_self=self)
        class Own(Base):
            def __init__(self):
                super().__init__()
        def build():
            return Own()
        """
    )
    assert made.build().site["function"] == "build"

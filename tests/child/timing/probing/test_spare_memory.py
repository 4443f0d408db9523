"""Memory that is left: the machine's or the container's, whichever is less."""

from trainperf.child.timing.probing import spare_memory


def test_a_container_without_a_limit_or_files_says_nothing(tmp_path):
    assert spare_memory._container(str(tmp_path)) is None
    for name, text in (("memory.max", "max"), ("memory.current", "5"), ("memory.stat", "")):
        (tmp_path / name).write_text(text)
    assert spare_memory._container(str(tmp_path)) is None


def test_the_file_cache_of_a_container_counts_as_free(tmp_path):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert spare_memory._container(str(tmp_path)) == 400


def test_the_lower_of_the_two_counts(monkeypatch):
    monkeypatch.setattr(spare_memory, "_machine", lambda: 700)
    monkeypatch.setattr(spare_memory, "_container", lambda: 400)
    assert spare_memory.available() == 400
    monkeypatch.setattr(spare_memory, "_container", lambda: None)
    assert spare_memory.available() == 700
    monkeypatch.setattr(spare_memory, "_machine", lambda: None)
    assert spare_memory.available() is None

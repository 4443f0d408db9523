"""Memory that is left: the machine's or the container's, whichever is less."""

from trainperf.child.timing.probing import spare_memory


def test_the_file_cache_of_a_container_counts_as_free(tmp_path):
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("900\n")
    (tmp_path / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert spare_memory._container(str(tmp_path)) == 400

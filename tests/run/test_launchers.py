from trainperf.run.launchers import MPIRUN, TORCHRUN, after, options, replaced, value

NP = ("-np", "-n")
NPROC = ("--nproc-per-node", "--nproc_per_node")


def test_a_command_without_the_launcher_has_no_arguments_of_it():
    assert after(("python", "train.py"), TORCHRUN) is None
    assert after(("torchrun", "train.py"), MPIRUN) is None


def test_a_launcher_is_known_by_its_name_or_its_module():
    assert after(("/opt/bin/torchrun", "x.py"), TORCHRUN) == 1
    assert after(("python", "-m", "torch.distributed.run", "x.py"), TORCHRUN) == 3


def test_its_arguments_end_where_the_script_begins():
    command = ("torchrun", "--standalone", "train.py", "--nproc-per-node", "9")
    assert options(command, 1) == ("--standalone",)
    assert value(command, 1, NPROC) is None
    assert replaced(command, 1, NPROC, "1") == command
    module = ("torchrun", "--nproc-per-node=4", "-m", "pkg.train", "--nproc-per-node=9")
    assert options(module, 1) == ("--nproc-per-node=4",)
    assert replaced(module, 1, NPROC, "1")[4] == "--nproc-per-node=9"
    assert options(("mpirun", "-np", "2", "python3", "-n", "x.py"), 1) == ("-np", "2")


def test_both_spellings_of_an_option_are_read_and_written():
    for command in (
        ("torchrun", "--nproc_per_node", "4", "x.py"),
        ("torchrun", "--nproc-per-node=4", "x.py"),
    ):
        assert value(command, 1, NPROC) == "4"
        assert value(replaced(command, 1, NPROC, "2"), 1, NPROC) == "2"
    assert replaced(("mpirun", "-np", "4", "python", "x.py"), 1, NP, "1")[1:3] == ("-np", "1")

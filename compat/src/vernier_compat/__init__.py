"""Commands and checks of vernier-compat."""

import sys

_ORIGINALS = ("mindstudio-probe", "torch_xray")


def check():
    """Raises ImportError when one of the tools whose names we have was installed over us."""
    from importlib import metadata

    for name in _ORIGINALS:
        try:
            metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        raise ImportError(
            f"{name} and vernier-compat are both installed, and have modules and commands of the same names. "
            f"Keep one of them: pip uninstall {name} vernier-compat, then install the one that you want"
        )


def _run(*words, program="vernier"):
    from vernier import main

    try:
        check()
    except ImportError as problem:
        sys.exit(f"{program}: {problem}")
    return main([*words, *sys.argv[1:]], program=program)


def msprobe():
    return _run(program="msprobe")


def jprof():
    return _run("jprof")


def summary():
    return _run("summary")


def compare():
    return _run("compare")


def summary_diff_check():
    return _run("summary_diff_check")

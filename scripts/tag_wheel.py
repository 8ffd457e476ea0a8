"""Checks that a wheel that auditwheel has repaired needs nothing beyond the system, and tags it with its glibc.

libstdc++ and libgcc stay the system's: torch uses those, and two copies in one process meet in symbols that exist once
for all libraries (STB_GNU_UNIQUE), which ended the process when the older copy came first. Every Linux with the glibc
of the tag has a libstdc++ that is new enough.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

SYSTEM = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*|libstdc\+\+|libgcc_s)\.so\.\d+")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def shared_libraries(folder):
    return sorted(path for path in folder.rglob("*.so*") if path.is_file())


def needed(library):
    return run("patchelf", "--print-needed", str(library)).split()


def check_complete(tree):
    """Everything needed lies in the wheel or is the system's, and nothing of the system's lies in the wheel."""
    libraries = shared_libraries(tree)
    here = {library.name for library in libraries}
    for name in here:
        if re.match(r"lib(stdc\+\+|gcc_s)\b", name):
            sys.exit(f"wheel: {name} must not be in it")
    for library in libraries:
        for name in needed(library):
            if name not in here and not SYSTEM.fullmatch(name):
                sys.exit(f"wheel: {library.name} needs {name}, which is neither in the wheel nor the system's")


def required_glibc(tree):
    text = "".join(run("objdump", "-T", str(library)) for library in shared_libraries(tree))
    return max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", text))


def retag(tree, glibc):
    wheel_file = next(tree.glob("*.dist-info/WHEEL"))
    platform = f"manylinux_{glibc[0]}_{glibc[1]}_x86_64"
    kept = [line for line in wheel_file.read_text().splitlines() if line and not line.startswith("Tag:")]
    wheel_file.write_text("\n".join([*kept, f"Tag: cp38-abi3-{platform}", ""]))


def main(wheel, destination):
    with tempfile.TemporaryDirectory() as folder:
        run("wheel", "unpack", "--dest", folder, wheel)
        tree = next(Path(folder).iterdir())
        check_complete(tree)
        retag(tree, required_glibc(tree))
        run("wheel", "pack", "--dest-dir", destination, str(tree))


if __name__ == "__main__":
    main(*sys.argv[1:])

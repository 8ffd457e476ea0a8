"""Puts what auditwheel leaves out into a wheel that it has repaired, and tags it with the glibc it then needs.

auditwheel counts libstdc++, libgcc and libz as part of every Linux; slim containers lack some, and older systems have
older ones. The copies get a name of their own, so that they never meet those that torch brings into the process.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def shared_libraries(folder):
    return sorted(path for path in folder.rglob("*.so*") if path.is_file())


def needed(library):
    return run("patchelf", "--print-needed", str(library)).split()


def add_runtime(tree):
    libs = next(tree.glob("*.libs"))
    renamed = {}
    for name in RUNTIME:
        if not any(name in needed(library) for library in shared_libraries(tree)):
            continue
        source = Path(run("gcc", f"-print-file-name={name}").strip()).resolve()
        digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
        stem, suffix = name.split(".so", 1)
        renamed[name] = f"{stem}-{digest}.so{suffix}"
        shutil.copy(source, libs / renamed[name])
        run("patchelf", "--set-soname", renamed[name], "--set-rpath", "$ORIGIN", str(libs / renamed[name]))
    for library in shared_libraries(tree):
        for name in set(needed(library)) & set(renamed):
            run("patchelf", "--replace-needed", name, renamed[name], str(library))


def check_complete(tree):
    """Everything needed lies in the wheel or is glibc."""
    libraries = shared_libraries(tree)
    here = {library.name for library in libraries}
    glibc = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*)\.so\.\d+")
    for library in libraries:
        for name in needed(library):
            if name not in here and not glibc.fullmatch(name):
                sys.exit(f"wheel: {library.name} needs {name}, which is neither in the wheel nor glibc")


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
        add_runtime(tree)
        check_complete(tree)
        retag(tree, required_glibc(tree))
        run("wheel", "pack", "--dest-dir", destination, str(tree))


if __name__ == "__main__":
    main(*sys.argv[1:])

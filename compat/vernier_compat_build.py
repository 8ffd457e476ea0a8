"""Builds vernier-compat: a PEP 517 backend that needs nothing but the standard library.

The distribution is offered as a source archive, so that this runs on the machine where it is installed, and can refuse
to put its modules over those of the tools whose names they have.
"""

import base64
import glob
import hashlib
import io
import os
import site
import sysconfig
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ORIGINALS = {"mindstudio_probe": "mindstudio-probe", "torch_xray": "torch_xray"}  # as their folders begin
PACKAGES = ("msprobe", "torch_xray")  # whose files would be replaced
MARK = "vernier-compat"  # stands in every file of ours
COMMANDS = {name: name for name in ("msprobe", "jprof", "summary", "compare", "summary_diff_check")}


def _version():
    places = (os.path.join(HERE, "VERSION"), os.path.join(HERE, os.pardir, "VERSION"))  # of an archive, of a checkout
    with open(next(filter(os.path.exists, places)), encoding="utf-8") as file:
        return file.read().split()[0]


def _site_folders():
    paths = sysconfig.get_paths()
    folders = [paths["purelib"], paths["platlib"]]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return list(dict.fromkeys(folders))


def problem(folders=None):
    """What keeps us from being installed, in words; None: nothing."""
    for folder in _site_folders() if folders is None else folders:
        for prefix, name in ORIGINALS.items():
            if glob.glob(os.path.join(glob.escape(folder), f"{prefix}-*.dist-info")):
                return (
                    f"{name} is installed in {folder}, and vernier-compat has modules and commands of the same names. "
                    f"Remove it first: pip uninstall {name}"
                )
        for package in PACKAGES:
            path = os.path.join(folder, package, "__init__.py")
            if os.path.exists(path) and MARK not in _text(path):
                return (
                    f"{os.path.dirname(path)} holds another package named {package}. "
                    f"Remove it first: pip uninstall {package}, or delete the folder"
                )
    return None


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _metadata():
    version = _version()
    lines = [
        "Metadata-Version: 2.1",
        "Name: vernier-compat",
        f"Version: {version}",
        "Summary: The names msprobe and torch_xray for vernier",
        "License: Apache-2.0",
        "Requires-Python: >=3.8",
        f"Requires-Dist: vernier (=={version})",
        "Description-Content-Type: text/markdown",
        "",
        _text(os.path.join(HERE, "README.md")),
    ]
    return "\n".join(lines)


def _entry_points():
    lines = [f"{command} = vernier_compat:{function}" for command, function in COMMANDS.items()]
    return "\n".join(["[console_scripts]", *lines, ""])


def _modules():
    """(name in the wheel, path here)."""
    top = os.path.join(HERE, "src")
    for folder, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                yield os.path.relpath(path, top).replace(os.sep, "/"), path


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    found = problem()
    if found is not None:
        raise SystemExit(f"vernier-compat: {found}")
    stem = f"vernier_compat-{_version()}"
    files = {name: _text(path) for name, path in _modules()}
    files[f"{stem}.dist-info/METADATA"] = _metadata()
    files[f"{stem}.dist-info/entry_points.txt"] = _entry_points()
    files[f"{stem}.dist-info/WHEEL"] = (
        "Wheel-Version: 1.0\nGenerator: vernier-compat\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join(f"{name},{_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    files[record] += f"{record},,\n"
    name = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, text in files.items():
            wheel.writestr(zipfile.ZipInfo(file, (2020, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)
    return name


def _digest(text):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def build_sdist(sdist_directory, config_settings=None):
    stem = f"vernier_compat-{_version()}"
    files = {f"src/{name}": _text(path) for name, path in _modules()}
    for name in ("pyproject.toml", "README.md", "vernier_compat_build.py"):
        files[name] = _text(os.path.join(HERE, name))
    files["VERSION"] = _version() + "\n"
    files["PKG-INFO"] = _metadata()
    name = f"{stem}.tar.gz"
    with tarfile.open(os.path.join(sdist_directory, name), "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for file, text in files.items():
            info, data = tarfile.TarInfo(f"{stem}/{file}"), text.encode()
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return name


if __name__ == "__main__":
    import sys

    print(build_sdist(sys.argv[1]))

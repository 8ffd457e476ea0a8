"""Writes zip_stream64.zip beside it: sizes behind the data, zip64 fields, deflated."""

import os
import zipfile


class Stream:
    """A file that cannot seek, so that sizes have to follow the data."""

    def __init__(self, path):
        self.file = open(path, "wb")

    def write(self, data):
        return self.file.write(data)

    def flush(self):
        self.file.flush()


def main():
    out = Stream(os.path.join(os.path.dirname(os.path.abspath(__file__)), "zip_stream64.zip"))
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in {"a/b": b"x" * 300, "e": b"hello"}.items():
            member = zipfile.ZipInfo(name)
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                file.write(data)


if __name__ == "__main__":
    main()

"""Unpack chosen members of a wheel: unpack.py WHEEL FOLDER FROM=TO ...

A FROM ending in "/" takes the whole folder. Members are streamed, their checksums verified by zipfile.
Prints "missing FROM" for what the wheel does not have and exits 1, or exits 0.
"""

import os
import shutil
import sys
import zipfile


def main():
    wheel, folder, *chosen = sys.argv[1:]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        for source, _, target in (rule.partition("=") for rule in chosen):
            if source.endswith("/"):
                members = [name for name in names if name.startswith(source) and not name.endswith("/")]
            else:
                members = [name for name in names if name == source]
            if not members:
                print("missing %s" % source)
                sys.exit(1)
            for name in members:
                path = os.path.join(folder, target + name[len(source) :])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with archive.open(name) as packed, open(path, "wb") as plain:
                    shutil.copyfileobj(packed, plain, 1 << 20)


main()

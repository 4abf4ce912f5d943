"""Unpacks files of a ZIP archive (first argument) into a folder (second argument).

Standard input holds the wanted ones as JSON: a list of [name, target]; a name that ends in / stands for all below it.
"""

import json
import os
import pathlib
import shutil
import sys
import zipfile

archive_path, folder = sys.argv[1], pathlib.Path(sys.argv[2])
wanted = json.load(sys.stdin)
met = set()


def target_of(name):
    for source, target in wanted:
        if name == source or (source.endswith("/") and name.startswith(source)):
            met.add(source)
            return target + name[len(source):]
    return None


with zipfile.ZipFile(archive_path) as archive:
    for member in archive.infolist():
        target = None if member.is_dir() else target_of(member.filename)
        if target is None:
            continue
        if ".." in pathlib.PurePosixPath(target).parts:
            sys.exit(f"  {member.filename} leads out of the folder")
        path = folder / target
        path.parent.mkdir(parents=True, exist_ok=True)
        # Reading to the end compares the member with its checksum.
        with archive.open(member) as source, open(path, "wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        if ".so" in path.name:
            os.chmod(path, 0o755)

missing = [source for source, _ in wanted if source not in met]
if missing:
    sys.exit(f"  {archive_path} has no {', '.join(missing)}")

"""Compares every member of the ZIP archive in the first argument with its checksum."""

import sys
import zipfile
import zlib

try:
    with zipfile.ZipFile(sys.argv[1]) as archive:
        damaged = archive.testzip()
except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as error:
    sys.exit(f"  {error}")
if damaged is not None:
    sys.exit(f"  {damaged} does not match its checksum")

"""Downloads the address in the first argument to the file in the second, and reports progress."""

import sys
import time
import urllib.request

address, target = sys.argv[1:]
# Seconds to connect, and for each piece that is read: an unreachable server must not hold anyone up.
PATIENCE = 10
try:
    with urllib.request.urlopen(address, timeout=PATIENCE) as source, open(target, "wb") as file:
        announced = int(source.headers.get("Content-Length", 0))
        received, reported = 0, time.monotonic()
        while piece := source.read(1 << 20):
            file.write(piece)
            received += len(piece)
            if time.monotonic() - reported >= 2:
                reported = time.monotonic()
                print(f"  {received / 1e6:.0f} of {announced / 1e6:.0f} MB", file=sys.stderr, flush=True)
except OSError as error:
    sys.exit(f"  {address}: {error}")
if announced and received != announced:
    sys.exit(f"  {address}: {received} of {announced} bytes arrived")

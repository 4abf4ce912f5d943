"""All-reduce over Gloo, as PyTorch runs it: `python all_reduce.py RANKS BYTES...` starts the ranks on this machine and
prints a line for each size. One thread of computation per process; each round begins with a barrier."""

import os
import socket
import statistics
import subprocess
import sys
import time

WARM_UP = 2


def rounds(size):
    """How often a size is measured: as the other programs of this folder do it."""
    for limit, count in ((16384, 400), (262144, 200), (4194304, 60), (33554432, 15)):
        if size <= limit:
            return count
    return 5


def start(ranks, sizes):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = dict(
        os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"
    )
    command = [sys.executable, __file__, str(ranks), *map(str, sizes)]
    children = [subprocess.Popen(command, env=dict(environment, PEER_RANK=str(rank))) for rank in range(ranks)]
    sys.exit(max(child.wait() for child in children))


def take_part(rank, ranks, sizes):
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    for size in sizes:
        x = torch.empty(size // 4)
        times = []
        for _ in range(WARM_UP + rounds(size)):
            x.fill_(rank + 1)
            distributed.barrier()
            begin = time.perf_counter()
            distributed.all_reduce(x)
            times.append(time.perf_counter() - begin)
            assert bool((x == ranks * (ranks + 1) / 2).all()), "a wrong sum"
        if rank == 0:
            median, mean = (1e6 * of(times[WARM_UP:]) for of in (statistics.median_high, statistics.fmean))
            print(f"all-reduce gloo ranks={ranks} bytes={size} us={median:.1f} mean={mean:.1f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    RANKS, SIZES = int(sys.argv[1]), [int(size) for size in sys.argv[2:]]
    if "PEER_RANK" in os.environ:
        take_part(int(os.environ["PEER_RANK"]), RANKS, SIZES)
    else:
        start(RANKS, SIZES)

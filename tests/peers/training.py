"""Synchronous SGD by PyTorch's DistributedDataParallel over Gloo: `python training.py MODEL RANKS STEPS [HOOK]` starts the ranks on
this machine and prints a line; with PEER_RANK set it is that rank. The hook `fp16` sends gradients in half precision. One thread of computation per process; one random batch, held in memory, is used for
all steps; three stretches of STEPS steps are timed between barriers, after a warm-up."""

import os
import socket
import statistics
import subprocess
import sys
import time

STRETCHES = 3


def mnist_mlp(nn):
    return nn.Sequential(
        nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 500), nn.ReLU(), nn.Linear(500, 10)
    ), (50, 784)


def lenet(nn):
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10)
    ), (50, 1, 28, 28)


def vgg_like(nn):
    layers, channels = [], 3
    for width in (64, 64, None, 128, 128, None, 256, 256, 256, None):
        if width is None:
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
    layers += [nn.Flatten(), nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    return nn.Sequential(*layers), (32, 3, 32, 32)


MODELS = {"mnist-mlp": mnist_mlp, "lenet": lenet, "vgg-like": vgg_like}


def start(ranks):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    environment = dict(
        os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"
    )
    command = [sys.executable, __file__, *sys.argv[1:]]
    children = [subprocess.Popen(command, env=dict(environment, PEER_RANK=str(rank))) for rank in range(ranks)]
    sys.exit(max(child.wait() for child in children))


def take_part(rank, ranks, model, steps, hook):
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.manual_seed(1)
    net, shape = MODELS[model](torch.nn)
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    if hook == "fp16":
        from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

        parallel.register_comm_hook(None, fp16_compress_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, labels = torch.randn(*shape), torch.randint(0, 10, shape[:1])

    def stretch(count):
        distributed.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(parallel(x), labels).backward()
            optimizer.step()
        distributed.barrier()
        return (time.perf_counter() - begin) / count

    stretch(max(4, steps // 8))
    median = statistics.median(stretch(steps) for _ in range(STRETCHES))
    if rank == 0:
        print(f"training ddp model={model} hook={hook} ranks={ranks} us={median * 1e6:.1f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    MODEL, RANKS, STEPS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    HOOK = sys.argv[4] if len(sys.argv) > 4 else "none"
    if "PEER_RANK" in os.environ:
        take_part(int(os.environ["PEER_RANK"]), RANKS, MODEL, STEPS, HOOK)
    else:
        start(RANKS)

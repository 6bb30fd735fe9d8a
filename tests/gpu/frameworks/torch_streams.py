"""Streams, events, pinned copies, allocator statistics, a captured graph and a kernel written in CUDA C++, in PyTorch."""
import os

import torch
from torch.cuda import nvtx


def main():
    torch.manual_seed(0)
    streams = [torch.cuda.Stream() for _ in range(8)]
    host = [torch.arange(1 << 20, dtype=torch.float32).pin_memory() + i for i in range(8)]
    results = []
    for stream, source in zip(streams, host):
        with torch.cuda.stream(stream):
            device = source.cuda(non_blocking=True)
            for _ in range(10):
                device = device * 1.5 - 1
            target = torch.empty_like(source, pin_memory=True)
            target.copy_(device, non_blocking=True)
            results.append(target)
    torch.cuda.synchronize()
    print([float(r.double().sum()) for r in results])

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    torch.cuda._sleep(20_000_000)
    end.record()
    end.synchronize()
    print(5 < start.elapsed_time(end) < 60)

    static = torch.zeros(1024, 1024, device="cuda")
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        (static @ static).relu()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        product = (static @ static).relu() + 1
    for value in (1.0, 2.0, 3.0):
        static.fill_(value)
        graph.replay()
        print(float(product.sum()))

    kernel = torch.cuda._compile_kernel("""
extern "C" __global__ void scale(float* data, int n, float factor) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] *= factor;
}""", "scale") if hasattr(torch.cuda, "_compile_kernel") else None
    if kernel:
        data = torch.ones(1000, device="cuda")
        kernel(grid=(4, 1, 1), block=(256, 1, 1), args=[data, 1000, 2.5])
        print(float(data.sum()))
    with nvtx.range("quiet"):
        free, total = torch.cuda.mem_get_info()
        print(free < total, torch.cuda.get_device_properties(0).multi_processor_count)
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("out of memory, as it should")
    try:
        torch.ones(5, device="cuda")[torch.tensor([10], device="cuda")].cpu()
    except Exception as error:
        print(type(error).__name__, flush=True)
    try:
        torch.cuda.Event().record()  # the context stays broken
    except Exception as error:
        print(type(error).__name__, flush=True)
    os._exit(0)  # PyTorch's own end aborts in a broken context


if __name__ == "__main__":
    main()

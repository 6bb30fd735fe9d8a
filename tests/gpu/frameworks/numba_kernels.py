"""Kernels compiled by Numba: shared memory, atomics, streams, mapped and pinned arrays."""
import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # numba-cuda 0.2x asks for what NumPy 2.5 removed

from numba import cuda, float32


@cuda.jit
def product(a, b, c):
    tile_a = cuda.shared.array((16, 16), float32)
    tile_b = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for i in range(a.shape[1] // 16):
        tile_a[ty, tx] = a[y, tx + i * 16]
        tile_b[ty, tx] = b[ty + i * 16, x]
        cuda.syncthreads()
        for j in range(16):
            total += tile_a[ty, j] * tile_b[j, tx]
        cuda.syncthreads()
    c[y, x] = total


@cuda.jit
def histogram(values, counts):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, values[i], 1)


def main():
    generator = np.random.default_rng(1)
    a = generator.integers(0, 9, (256, 256)).astype(np.float32)
    b = generator.integers(0, 9, (256, 256)).astype(np.float32)
    c = np.zeros_like(a)
    product[(16, 16), (16, 16)](a, b, c)
    print(np.array_equal(c, a @ b), float(c.sum()))
    values = generator.integers(0, 32, 100_000)
    counts = cuda.to_device(np.zeros(32, np.int64))
    histogram[64, 256](cuda.to_device(values), counts)
    print(counts.copy_to_host().tolist() == np.bincount(values, minlength=32).tolist())
    stream = cuda.stream()
    with cuda.pinned(a):
        device = cuda.to_device(a, stream=stream)
        device.copy_to_host(c, stream=stream)
        stream.synchronize()
    print(np.array_equal(a, c))
    mapped = cuda.mapped_array(32, dtype=np.int64)
    mapped[:] = 0
    histogram[4, 64](cuda.to_device(values), mapped)
    cuda.synchronize()
    print(int(mapped.sum()))


if __name__ == "__main__":
    main()

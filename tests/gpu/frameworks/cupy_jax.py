"""CuPy and JAX beside each other in one process, and memory handed from PyTorch to both through DLPack."""
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def main():
    import cupy
    import jax
    import jax.numpy as jnp
    import torch

    tensor = torch.arange(1000, dtype=torch.float32, device="cuda")
    array = cupy.from_dlpack(tensor)
    array *= 2
    torch.cuda.synchronize()
    cupy.cuda.Device().synchronize()
    print(float(tensor.sum()))
    print(float(jnp.sum(jax.dlpack.from_dlpack(tensor))))
    kernel = cupy.RawKernel(r'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }', "twice")
    kernel((1,), (256,), (array,))
    print(float(array[:300].sum()))
    pool = cupy.cuda.MemoryAsyncPool()
    with cupy.cuda.using_allocator(pool.malloc):
        print(int(cupy.arange(1 << 20, dtype=cupy.int64).sum()))

    @jax.jit
    def step(x):
        return jnp.tanh(x @ x) + jnp.fft.fft(x).real

    print(f"{float(step(jnp.eye(128)).sum()):.6e}")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        pinned = cupy.cuda.alloc_pinned_memory(4096)
        del pinned
        print(float(cupy.linalg.norm(cupy.ones((64, 64)))))
        stream.synchronize()


if __name__ == "__main__":
    main()

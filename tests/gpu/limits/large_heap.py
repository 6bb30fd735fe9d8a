"""A program whose kernels may have much memory by malloc(): raises CU_LIMIT_MALLOC_HEAP_SIZE, and launches such a kernel now and then.

usage: large_heap.py MIB SECONDS
"""
import ctypes
import sys
import time

CU_LIMIT_MALLOC_HEAP_SIZE = 2
KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b64 result) malloc (.param .b64 size);
.extern .func free (.param .b64 pointer);
.visible .entry work()
{
  .reg .b64 %rd<3>;
  mov.u64 %rd1, 64;
  {
    .param .b64 size;
    .param .b64 result;
    st.param.b64 [size], %rd1;
    call.uni (result), malloc, (size);
    ld.param.b64 %rd2, [result];
  }
  {
    .param .b64 pointer;
    st.param.b64 [pointer], %rd2;
    call.uni free, (pointer);
  }
  ret;
}
"""


def check(result):
    if result != 0:
        sys.exit(f"CUDA error {result}")


def main():
    mib, seconds = int(sys.argv[1]), float(sys.argv[2])
    cuda = ctypes.CDLL("libcuda.so.1")
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, ctypes.c_size_t(mib << 20)))
    check(cuda.cuModuleLoadData(ctypes.byref(module), KERNEL))
    check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"work"))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None))
        check(cuda.cuCtxSynchronize())
        time.sleep(0.01)


if __name__ == "__main__":
    main()

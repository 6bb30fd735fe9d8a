"""Begins with CUDA and makes contexts where it may; for tests of a vGPU without room for one.

Says first what cuInit, cuDeviceGetName and cuDeviceTotalMem returned, the total in MiB, and what cuCtxCreate and cuDevicePrimaryCtxRetain
returned. Then, for each line: what making a context returned, and what allocating as many MiB as the line says.
"""
import ctypes, sys
from ctypes import byref
cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_ulonglong()
name, total = ctypes.create_string_buffer(64), ctypes.c_size_t()
told = [cuda.cuInit(0), cuda.cuDeviceGetName(name, 64, 0), cuda.cuDeviceTotalMem_v2(byref(total), 0)]
print(told, total.value >> 20, [cuda.cuCtxCreate_v2(byref(context), 0, 0), cuda.cuDevicePrimaryCtxRetain(byref(context), 0)], flush=True)
has_context = False
for line in sys.stdin:
    made = 0 if has_context else cuda.cuDevicePrimaryCtxRetain(byref(context), 0)
    has_context = made == 0
    if has_context:
        cuda.cuCtxSetCurrent(context)
    print([made] + ([cuda.cuMemAlloc_v2(byref(memory), int(line) << 20)] if has_context else []), flush=True)

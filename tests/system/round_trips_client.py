"""What programs do all the time, each in a region of the statistics (cuProfilerStart, cuProfilerStop). Prints the regions' names."""

import ctypes

from ctypes import byref, c_size_t, c_uint32, c_void_p

cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    assert result == 0, result


def ptx(kernels):
    """Text of kernels that write a number."""
    text = ".version 8.0\n.target sm_70\n.address_size 64\n"
    for name in kernels:
        text += f""".visible .entry {name}(.param .u64 out, .param .u32 value) {{
          .reg .u64 %a; .reg .u32 %v; ld.param.u64 %a, [out]; cvta.to.global.u64 %a, %a; ld.param.u32 %v, [value];
          st.global.u32 [%a], %v; ret; }}\n"""
    return text.encode()


def new(make, *arguments):
    made = c_void_p()
    check(make(byref(made), *arguments))
    return made


check(cuda.cuInit(0))
context = new(cuda.cuDevicePrimaryCtxRetain, 0)
check(cuda.cuCtxSetCurrent(context))
memory = new(cuda.cuMemAlloc_v2, c_size_t(1 << 20))
pinned = new(cuda.cuMemHostAlloc, c_size_t(1 << 16), 0)
ordinary = ctypes.create_string_buffer(1 << 16)
stream = new(cuda.cuStreamCreate, 1)
event = new(cuda.cuEventCreate, 2)
kernel = new(cuda.cuModuleGetFunction, new(cuda.cuModuleLoadData, ptx(["write"])), b"write")
value = c_uint32(5)
arguments = (c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
made = 0


def launch(function=kernel, where=None, threads=32):
    check(cuda.cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, where, arguments, None))


def launches():
    for i in range(1000):
        launch(where=stream, threads=1 + i % 1024)


def objects():
    for _ in range(100):
        other, mark = new(cuda.cuStreamCreate, 1), new(cuda.cuEventCreate, 2)
        check(cuda.cuEventRecord(mark, other))
        check(cuda.cuStreamWaitEvent(stream, mark, 0))
        check(cuda.cuEventDestroy_v2(mark))
        check(cuda.cuStreamDestroy_v2(other))


def read_4_bytes():
    launch()
    check(cuda.cuMemcpyDtoH_v2(byref(c_uint32()), memory, c_size_t(4)))


def read_4_bytes_into_pinned_memory():
    launch(where=stream)
    check(cuda.cuMemcpyDtoHAsync_v2(pinned, memory, c_size_t(4), stream))
    check(cuda.cuStreamSynchronize(stream))


def copies_of_pinned_memory():
    for _ in range(10):
        check(cuda.cuMemcpyHtoDAsync_v2(memory, pinned, c_size_t(1 << 16), stream))
        check(cuda.cuMemcpyDtoHAsync_v2(pinned, memory, c_size_t(1 << 16), stream))


def copies_of_ordinary_memory():
    for _ in range(10):
        check(cuda.cuMemcpyHtoDAsync_v2(memory, ordinary, c_size_t(1 << 12), stream))


def sets():
    for _ in range(100):
        check(cuda.cuMemsetD8Async(memory, 1, c_size_t(1 << 12), stream))


def poll():
    launch(where=stream)
    check(cuda.cuEventRecord(event, stream))
    while cuda.cuEventQuery(event) != 0:
        pass


def questions():
    answer = ctypes.c_uint64()
    for _ in range(100):
        check(cuda.cuFuncGetAttribute(byref(answer), 0, kernel))
        check(cuda.cuDeviceGetAttribute(byref(answer), 1, 0))
        check(cuda.cuPointerGetAttribute(byref(answer), 9, memory))
        check(cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(answer), kernel, 128, c_size_t(0)))
        check(cuda.cuCtxGetCurrent(byref(answer)))


def module_of_20_kernels():
    names = [f"k{made}_{i}" for i in range(20)]
    module = new(cuda.cuModuleLoadData, ptx(names))
    for name in names:
        function = new(cuda.cuModuleGetFunction, module, name.encode())
        launch(function)
        launch(function, threads=256)


def library_of_20_kernels():
    names = [f"k{made}_{i}" for i in range(20)]
    library = new(cuda.cuLibraryLoadData, ptx(names), None, None, 0, None, None, 0)
    for name in names:
        function = new(cuda.cuLibraryGetKernel, library, name.encode())
        launch(function)
        launch(function, threads=256)


for region in (launches, objects, read_4_bytes, read_4_bytes_into_pinned_memory, copies_of_pinned_memory, copies_of_ordinary_memory, sets, poll, questions,
               module_of_20_kernels, library_of_20_kernels):
    region()  # what happens once
    made += 1
    check(cuda.cuCtxSynchronize())
    check(cuda.cuProfilerStart())
    region()
    check(cuda.cuProfilerStop())
    print(region.__name__, flush=True)

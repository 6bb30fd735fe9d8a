"""prototype_check.cc: the compiler compares every row of the spec with NVIDIA's headers."""

from output import ALL, in_namespace


def emit(spec, out):
    body = []
    for call in spec.exports:
        body.append(f"static_assert(std::is_same_v<decltype(&::{call.name}), CUresult(CUDAAPI*)({call.types})>,")
        body.append(f'              "the parameters of {call.name} in {call.where.file} are not those of cuda.h");')
        for symbol in call.symbols:
            suffix = call.per_thread if symbol != call.name else ""
            since = call.per_thread_since if suffix else call.since
            body.append(f"static_assert(std::is_same_v<decltype(&::{symbol}), PFN_{call.base_name}_v{since}{suffix}>,")
            body.append(f'              "{symbol} in {call.where.file} is not the variant of version {since}");')
    out.write("prototype_check.cc", ALL, [
        "// Compiled for its assertions alone.", "", "#include <cuda.h>", "#include <cudaProfiler.h>",
        "#include <cudaProfilerTypedefs.h>", "#include <cudaTypedefs.h>", "", "#include <type_traits>", "",
        "#ifndef __CUDA_API_VERSION_INTERNAL",
        '#error "without __CUDA_API_VERSION_INTERNAL cuda.h renames functions; link the target cuda_api"', "#endif", "",
        *in_namespace(body)])

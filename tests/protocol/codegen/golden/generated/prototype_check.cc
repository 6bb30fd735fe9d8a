// Generated from protocol/spec/*.toml by protocol/codegen. Do not edit.
// Compiled for its assertions alone.

#include <cuda.h>
#include <cudaProfiler.h>
#include <cudaProfilerTypedefs.h>
#include <cudaTypedefs.h>

#include <type_traits>

#ifndef __CUDA_API_VERSION_INTERNAL
#error "without __CUDA_API_VERSION_INTERNAL cuda.h renames functions; link the target cuda_api"
#endif

namespace tessera {

static_assert(std::is_same_v<decltype(&::cuToyCreate), CUresult(CUDAAPI*)(CUtoy*, unsigned int)>,
              "the parameters of cuToyCreate in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyCreate), PFN_cuToyCreate_v1000>,
              "cuToyCreate in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyDestroy), CUresult(CUDAAPI*)(CUtoy)>,
              "the parameters of cuToyDestroy in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyDestroy), PFN_cuToyDestroy_v1000>,
              "cuToyDestroy in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyDestroyOld), CUresult(CUDAAPI*)(CUtoy)>,
              "the parameters of cuToyDestroyOld in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyDestroyOld), PFN_cuToyDestroyOld_v900>,
              "cuToyDestroyOld in toy.toml is not the variant of version 900");
static_assert(std::is_same_v<decltype(&::cuToyRename), CUresult(CUDAAPI*)(CUtoy, const char*, const void*, size_t, char*, int)>,
              "the parameters of cuToyRename in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyRename), PFN_cuToyRename_v1000>,
              "cuToyRename in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyPlay_v2), CUresult(CUDAAPI*)(const CUtoy*, unsigned int, const CUpoint*, CUpoint*, CUtoy*, size_t*, void*, CUstream)>,
              "the parameters of cuToyPlay_v2 in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyPlay_v2), PFN_cuToyPlay_v1200>,
              "cuToyPlay_v2 in toy.toml is not the variant of version 1200");
static_assert(std::is_same_v<decltype(&::cuToyPlay_v2_ptsz), PFN_cuToyPlay_v1300_ptsz>,
              "cuToyPlay_v2_ptsz in toy.toml is not the variant of version 1300");
static_assert(std::is_same_v<decltype(&::cuToyGetColour), CUresult(CUDAAPI*)(int*, CUtoy)>,
              "the parameters of cuToyGetColour in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyGetColour), PFN_cuToyGetColour_v1000>,
              "cuToyGetColour in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyPaint), CUresult(CUDAAPI*)(CUtoy, void**)>,
              "the parameters of cuToyPaint in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyPaint), PFN_cuToyPaint_v1000>,
              "cuToyPaint in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyFly), CUresult(CUDAAPI*)(CUtoy)>,
              "the parameters of cuToyFly in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyFly), PFN_cuToyFly_v1000>,
              "cuToyFly in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyName), CUresult(CUDAAPI*)(const char**)>,
              "the parameters of cuToyName in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyName), PFN_cuToyName_v1000>,
              "cuToyName in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyThrow), CUresult(CUDAAPI*)(CUtoy, CUstream)>,
              "the parameters of cuToyThrow in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyThrow), PFN_cuToyThrow_v1000>,
              "cuToyThrow in toy.toml is not the variant of version 1000");
static_assert(std::is_same_v<decltype(&::cuToyHurl), CUresult(CUDAAPI*)(CUtoy, CUstream)>,
              "the parameters of cuToyHurl in toy.toml are not those of cuda.h");
static_assert(std::is_same_v<decltype(&::cuToyHurl), PFN_cuToyHurl_v1000>,
              "cuToyHurl in toy.toml is not the variant of version 1000");

}  // namespace tessera

// The forms of before CUDA 3.2, with addresses and sizes of 32 bits. They belong to contexts that were made by the functions
// of that time; in every other context the driver answers CUDA_ERROR_INVALID_CONTEXT, sets the numbers it would answer with
// to 0 and looks at nothing else (measured, driver 580). All contexts here are of the later kind.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "generated/client/copy.h"
#include "generated/client/host_memory.h"
#include "generated/client/memory.h"
#include "generated/client/module.h"
#include "generated/client/set.h"
#include "generated/client/texture.h"

namespace tessera {
namespace {

template <typename... Number>
CUresult Refuse(Call& call, Number*... answers) {
  if (!call.ok()) return call.result();
  ((answers == nullptr ? void() : void(*answers = 0)), ...);
  return call.Fail(CUDA_ERROR_INVALID_CONTEXT);
}

}  // namespace

CUresult Custom_cuMemFree(Call& call, CUdeviceptr_v1) {
  if (!call.ok()) return call.result();
  return call.Fail(call.context().is_null() ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT);
}

CUresult Custom_cuMemGetInfo(Call& call, unsigned int* free, unsigned int* total) { return Refuse(call, free, total); }

CUresult Custom_cuMemAlloc(Call& call, CUdeviceptr_v1* dptr, unsigned int) { return Refuse(call, dptr); }

CUresult Custom_cuMemAllocPitch(Call& call, CUdeviceptr_v1* dptr, unsigned int* pPitch, unsigned int, unsigned int,
                                unsigned int) {
  return Refuse(call, dptr, pPitch);
}

CUresult Custom_cuMemGetAddressRange(Call& call, CUdeviceptr_v1* pbase, unsigned int* psize, CUdeviceptr_v1) {
  return Refuse(call, pbase, psize);
}

CUresult Custom_cuMemAllocHost(Call& call, void**, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemHostGetDevicePointer(Call& call, CUdeviceptr_v1* pdptr, void*, unsigned int) { return Refuse(call, pdptr); }

CUresult Custom_cuModuleGetGlobal(Call& call, CUdeviceptr_v1*, unsigned int*, CUmodule, const char*) { return Refuse(call); }

CUresult Custom_cuMemcpyHtoD(Call& call, CUdeviceptr_v1, const void*, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyDtoH(Call& call, void*, CUdeviceptr_v1, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyDtoD(Call& call, CUdeviceptr_v1, CUdeviceptr_v1, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyDtoA(Call& call, CUarray, unsigned int, CUdeviceptr_v1, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyAtoD(Call& call, CUdeviceptr_v1, CUarray, unsigned int, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyHtoA(Call& call, CUarray, unsigned int, const void*, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyAtoH(Call& call, void*, CUarray, unsigned int, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyAtoA(Call& call, CUarray, unsigned int, CUarray, unsigned int, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemcpyHtoDAsync(Call& call, CUdeviceptr_v1, const void*, unsigned int, CUstream) { return Refuse(call); }

CUresult Custom_cuMemcpyDtoHAsync(Call& call, void*, CUdeviceptr_v1, unsigned int, CUstream) { return Refuse(call); }

CUresult Custom_cuMemcpyDtoDAsync(Call& call, CUdeviceptr_v1, CUdeviceptr_v1, unsigned int, CUstream) { return Refuse(call); }

CUresult Custom_cuMemcpyHtoAAsync(Call& call, CUarray, unsigned int, const void*, unsigned int, CUstream) { return Refuse(call); }

CUresult Custom_cuMemcpyAtoHAsync(Call& call, void*, CUarray, unsigned int, unsigned int, CUstream) { return Refuse(call); }

CUresult Custom_cuMemcpy2D(Call& call, const CUDA_MEMCPY2D_v1*) { return Refuse(call); }

CUresult Custom_cuMemcpy2DUnaligned(Call& call, const CUDA_MEMCPY2D_v1*) { return Refuse(call); }

CUresult Custom_cuMemcpy2DAsync(Call& call, const CUDA_MEMCPY2D_v1*, CUstream) { return Refuse(call); }

CUresult Custom_cuMemcpy3D(Call& call, const CUDA_MEMCPY3D_v1*) { return Refuse(call); }

CUresult Custom_cuMemcpy3DAsync(Call& call, const CUDA_MEMCPY3D_v1*, CUstream) { return Refuse(call); }

CUresult Custom_cuMemsetD8(Call& call, CUdeviceptr_v1, unsigned char, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemsetD16(Call& call, CUdeviceptr_v1, unsigned short, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemsetD32(Call& call, CUdeviceptr_v1, unsigned int, unsigned int) { return Refuse(call); }

CUresult Custom_cuMemsetD2D8(Call& call, CUdeviceptr_v1, unsigned int, unsigned char, unsigned int, unsigned int) {
  return Refuse(call);
}

CUresult Custom_cuMemsetD2D16(Call& call, CUdeviceptr_v1, unsigned int, unsigned short, unsigned int, unsigned int) {
  return Refuse(call);
}

CUresult Custom_cuMemsetD2D32(Call& call, CUdeviceptr_v1, unsigned int, unsigned int, unsigned int, unsigned int) {
  return Refuse(call);
}

CUresult Custom_cuArrayCreate(Call& call, CUarray*, const CUDA_ARRAY_DESCRIPTOR_v1*) { return Refuse(call); }

CUresult Custom_cuArrayGetDescriptor(Call& call, CUDA_ARRAY_DESCRIPTOR_v1*, CUarray) { return Refuse(call); }

CUresult Custom_cuArray3DCreate(Call& call, CUarray*, const CUDA_ARRAY3D_DESCRIPTOR_v1*) { return Refuse(call); }

CUresult Custom_cuArray3DGetDescriptor(Call& call, CUDA_ARRAY3D_DESCRIPTOR_v1*, CUarray) { return Refuse(call); }

CUresult Custom_cuTexRefSetAddress(Call& call, unsigned int* ByteOffset, CUtexref, CUdeviceptr_v1, unsigned int) {
  return Refuse(call, ByteOffset);
}

CUresult Custom_cuTexRefSetAddress2D(Call& call, CUtexref, const CUDA_ARRAY_DESCRIPTOR_v1*, CUdeviceptr_v1, unsigned int) {
  return Refuse(call);
}

CUresult Custom_cuTexRefGetAddress(Call& call, CUdeviceptr_v1* pdptr, CUtexref) { return Refuse(call, pdptr); }

}  // namespace tessera

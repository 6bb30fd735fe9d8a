// How a program gets into the driver: initialisation, version, look-up of functions and tables.

#include <cuda.h>

#include "client-stub/call/call.h"
#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/process/proc_address.h"
#include "client-stub/session/client.h"
#include "generated/client/entry.h"

namespace tessera {

CUresult Custom_cuInit(Call& call, unsigned int Flags) { return call.Fail(Client::Get().Initialize(Flags)); }

CUresult Custom_cuDriverGetVersion(Call& call, int* driverVersion) {
  if (driverVersion == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *driverVersion = Client::Get().DriverVersion();
  return CUDA_SUCCESS;
}

// The version limit here is that of this library, not the server driver's: asking must not depend on a connection.
CUresult Custom_cuGetProcAddress(Call& call, const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  if (pfn == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const ProcAddressAnswer answer = FindProcAddress(symbol, cudaVersion, flags, CUDA_VERSION);
  if (answer.result != CUDA_SUCCESS) return call.Fail(answer.result);
  if (answer.function == nullptr) return call.Fail(CUDA_ERROR_NOT_FOUND);
  *pfn = answer.function;
  return CUDA_SUCCESS;
}

CUresult Custom_cuGetProcAddress_v2(Call& call, const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                    CUdriverProcAddressQueryResult* symbolStatus) {
  if (pfn == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const ProcAddressAnswer answer = FindProcAddress(symbol, cudaVersion, flags, CUDA_VERSION);
  if (answer.result != CUDA_SUCCESS) return call.Fail(answer.result);
  *pfn = answer.function;
  if (symbolStatus != nullptr) *symbolStatus = answer.status;
  return CUDA_SUCCESS;
}

CUresult Custom_cuGetExportTable(Call& call, const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *ppExportTable = FindHiddenTable(*pExportTableId);
  return *ppExportTable == nullptr ? call.Fail(CUDA_ERROR_INVALID_VALUE) : CUDA_SUCCESS;
}

}  // namespace tessera

// Error log management: the log is this process' own (error_log.h). `flags` are not looked at, as by driver 580.

#include <cuda.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "client-stub/call/call.h"
#include "client-stub/process/error_log.h"
#include "client-stub/session/client.h"
#include "generated/client/entry.h"

namespace tessera {
namespace {

uint32_t FirstOf(const CUlogIterator* iterator) { return iterator != nullptr ? *iterator : ErrorLog::Process().Oldest(); }

// Beyond the next entry: no place in the log. Numbers wrap.
bool IsBeyond(const CUlogIterator* iterator) {
  return iterator != nullptr && static_cast<int32_t>(*iterator - ErrorLog::Process().Next()) > 0;
}

}  // namespace

CUresult Custom_cuLogsRegisterCallback(Call& call, CUlogsCallback callbackFunc, void* userData,
                                       CUlogsCallbackHandle* callback_out) {
  if (!call.ok()) return call.result();
  if (callbackFunc == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const HandleId handle = call.Mint(HandleKind::kLogsCallback);
  if (!call.ok()) return call.result();
  ErrorLog::Process().Register(handle, callbackFunc, userData);
  if (callback_out != nullptr) *callback_out = reinterpret_cast<CUlogsCallbackHandle>(handle.value());
  return CUDA_SUCCESS;
}

CUresult Custom_cuLogsUnregisterCallback(Call& call, CUlogsCallbackHandle callback) {
  const HandleId handle = call.Use(HandleKind::kLogsCallback, callback);
  if (!call.ok()) return call.result();
  ErrorLog::Process().Unregister(handle);
  call.Release(handle);
  return CUDA_SUCCESS;
}

CUresult Custom_cuLogsCurrent(Call& call, CUlogIterator* iterator_out, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (iterator_out == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  *iterator_out = ErrorLog::Process().Next();
  return CUDA_SUCCESS;
}

CUresult Custom_cuLogsDumpToFile(Call& call, CUlogIterator* iterator, const char* pathToFile, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (pathToFile == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (IsBeyond(iterator)) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  uint32_t next = 0;
  bool fits = true;
  const std::string text = ErrorLog::Process().Text(FirstOf(iterator), SIZE_MAX, &next, &fits);
  FILE* file = fopen(pathToFile, "we");
  if (file == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  const bool written = fwrite(text.data(), 1, text.size(), file) == text.size();
  if (fclose(file) != 0 || !written) return call.Fail(CUDA_ERROR_OPERATING_SYSTEM);
  if (iterator != nullptr) *iterator = next;
  return CUDA_SUCCESS;
}

CUresult Custom_cuLogsDumpToMemory(Call& call, CUlogIterator* iterator, char* buffer, size_t* size, unsigned int flags) {
  if (!call.ok()) return call.result();
  if (buffer == nullptr || size == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (IsBeyond(iterator)) *size = 0;
  if (*size == 0) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  uint32_t next = 0;
  bool fits = true;
  const std::string text = ErrorLog::Process().Text(FirstOf(iterator), *size - 1, &next, &fits);
  *size = text.size();
  if (!fits) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  if (iterator != nullptr) *iterator = next;
  return CUDA_SUCCESS;
}

}  // namespace tessera

// CONTEXT_LOCAL_STORAGE: values that libraries keep for a context, by key. Most calls of the CUDA runtime fetch one, usually of
// the calling thread's own context. So that case finds the context without a look-up.

#include <cuda.h>

#include <cstdint>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/session/client.h"

namespace tessera {
namespace {

// Finds the context of a handle. Null and all ones mean the calling thread's own.
CUresult FindNamed(CUcontext handle, Context** context) {
  Client& client = Client::Get();
  if (!client.initialized()) return client.NotInitialized();
  Context* current = ThreadState::Current().current();
  if (handle == nullptr || handle == reinterpret_cast<CUcontext>(UINTPTR_MAX) ||
      (current != nullptr && current->object() == handle)) {
    *context = current;
  } else {
    *context = client.FindContext(handle);
  }
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult Put(CUcontext handle, void* key, void* value, LocalStorage::Destructor destructor) {
  Context* context = nullptr;
  if (const CUresult result = FindNamed(handle, &context); result != CUDA_SUCCESS) return result;
  return context->storage.Put(key, value, destructor);
}

CUresult Remove(CUcontext handle, void* key) {
  Context* context = nullptr;
  if (const CUresult result = FindNamed(handle, &context); result != CUDA_SUCCESS) return result;
  return context->storage.Remove(key);
}

CUresult Get(void** value, CUcontext handle, void* key) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  if (const CUresult result = FindNamed(handle, &context); result != CUDA_SUCCESS) return result;
  return context->storage.Get(key, value);
}

}  // namespace

const void* ContextLocalStorage() {
  static const void* const table[] = {reinterpret_cast<const void*>(&Put), reinterpret_cast<const void*>(&Remove),
                                      reinterpret_cast<const void*>(&Get), nullptr};
  return table;
}

}  // namespace tessera

#include "client-stub/process/coredump_settings.h"

#include <unistd.h>

#include <cstring>
#include <string_view>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr size_t kNameBytes = 1024;  // of a name's buffer, with its NUL

template <typename T>
CUresult Put(const T& from, void* value, size_t* size) {
  if (value == nullptr) {
    *size = sizeof(T);
  } else if (*size != sizeof(T)) {
    return CUDA_ERROR_INVALID_VALUE;
  } else {
    std::memcpy(value, &from, sizeof(T));
  }
  return CUDA_SUCCESS;
}

CUresult PutName(const std::string& name, void* value, size_t* size) {
  if (value == nullptr) {
    *size = kNameBytes;
  } else if (*size <= name.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  } else {
    std::memset(value, 0, *size);  // all of it, as the driver does
    std::memcpy(value, name.data(), name.size());
  }
  return CUDA_SUCCESS;
}

template <typename T>
CUresult Take(const void* value, size_t size, T* out) {
  if (value == nullptr || size != sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(out, value, sizeof(T));
  return CUDA_SUCCESS;
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

// %p stands for the process and %h for the host. The driver does not look at the size of a name.
CUresult TakeName(const void* value, std::string* out) {
  if (value == nullptr) return CUDA_SUCCESS;
  const std::string_view name(static_cast<const char*>(value), strnlen(static_cast<const char*>(value), kNameBytes));
  std::string expanded;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool escape = name[i] == '%' && i + 1 < name.size() && (name[i + 1] == 'p' || name[i + 1] == 'h');
    if (!escape) {
      expanded += name[i];
    } else {
      expanded += name[++i] == 'p' ? std::to_string(getpid()) : HostName();
    }
  }
  if (expanded.size() >= kNameBytes) return CUDA_ERROR_INVALID_VALUE;
  *out = expanded;
  return CUDA_SUCCESS;
}

CUresult Enable(const void* value, size_t size) {
  bool on = false;
  if (const CUresult result = Take(value, size, &on); result != CUDA_SUCCESS || !on) return result;
  LogWarning("core dumps of the GPU cannot be enabled: the server's process would write them, on its own host");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

bool CoredumpSettings::IsAttribute(CUcoredumpSettings attribute) {
  return attribute >= CU_COREDUMP_ENABLE_ON_EXCEPTION && attribute < CU_COREDUMP_MAX;
}

bool CoredumpSettings::IsOfContexts(CUcoredumpSettings attribute) {
  return IsAttribute(attribute) && attribute != CU_COREDUMP_ENABLE_USER_TRIGGER && attribute != CU_COREDUMP_PIPE;
}

const CoredumpSettings::Values& CoredumpSettings::Of(uint64_t context) const {
  const auto own = contexts_.find(context);
  return own == contexts_.end() ? process_ : own->second;
}

CUresult CoredumpSettings::Get(uint64_t context, CUcoredumpSettings attribute, void* value, size_t* size) const {
  if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(mutex_);
  const Values& values = Of(context);
  switch (attribute) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_ENABLE_USER_TRIGGER: return Put(false, value, size);
    case CU_COREDUMP_TRIGGER_HOST: return Put(values.trigger_host, value, size);
    case CU_COREDUMP_LIGHTWEIGHT: return Put(values.lightweight, value, size);
    case CU_COREDUMP_GENERATION_FLAGS: return Put(values.generation_flags, value, size);
    case CU_COREDUMP_FILE: return PutName(values.file, value, size);
    case CU_COREDUMP_PIPE: return PutName(values.pipe, value, size);
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CoredumpSettings::Set(uint64_t context, CUcoredumpSettings attribute, const void* value, const size_t* size) {
  if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  MutexLock lock(mutex_);
  Values values = Of(context);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_ENABLE_USER_TRIGGER: result = Enable(value, *size); break;
    case CU_COREDUMP_TRIGGER_HOST: result = Take(value, *size, &values.trigger_host); break;
    case CU_COREDUMP_LIGHTWEIGHT: result = Take(value, *size, &values.lightweight); break;
    case CU_COREDUMP_GENERATION_FLAGS: result = Take(value, *size, &values.generation_flags); break;
    case CU_COREDUMP_FILE: result = TakeName(value, &values.file); break;
    case CU_COREDUMP_PIPE: result = TakeName(value, &values.pipe); break;
    default: break;
  }
  if (result == CUDA_SUCCESS) (context == 0 ? process_ : contexts_[context]) = values;
  return result;
}

}  // namespace tessera

#include "client-stub/code/image_load.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "client-stub/code/blob.h"
#include "client-stub/session/session.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr unsigned kOptionsMax = 64;  // CUDA 13.0 knows 34 JIT options

}  // namespace

bool ClientJitOptions::Read(unsigned count, const CUjit_option* options, void** values) {
  if (count > kOptionsMax || (count > 0 && (options == nullptr || values == nullptr))) return false;
  for (unsigned i = 0; i < count; ++i) {
    const bool is_buffer = options[i] == CU_JIT_INFO_LOG_BUFFER || options[i] == CU_JIT_ERROR_LOG_BUFFER;
    options_.push_back(options[i]);
    wire_values_.push_back(is_buffer ? 0 : reinterpret_cast<uint64_t>(values[i]));
    slots_.push_back(&values[i]);
  }
  return true;
}

void ClientJitOptions::WriteLog(std::string_view text, CUjit_option buffer, CUjit_option size) const {
  for (size_t i = 0; i < options_.size(); ++i) {
    if (options_[i] != static_cast<uint32_t>(buffer) || *slots_[i] == nullptr) continue;
    for (size_t j = 0; j < options_.size(); ++j) {
      if (options_[j] != static_cast<uint32_t>(size)) continue;
      const size_t capacity = static_cast<uint32_t>(wire_values_[j]);
      if (capacity == 0) continue;
      const size_t copied = std::min(text.size(), capacity - 1);
      char* out = static_cast<char*>(*slots_[i]);
      std::memcpy(out, text.data(), copied);
      out[copied] = '\0';
      *slots_[j] = reinterpret_cast<void*>(static_cast<uintptr_t>(copied));
    }
  }
}

void ClientJitOptions::WriteOutputs(std::string_view info_log, std::string_view error_log, float wall_time_ms,
                                    uint32_t threads_per_block) const {
  WriteLog(info_log, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
  WriteLog(error_log, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  for (size_t i = 0; i < options_.size(); ++i) {
    if (options_[i] == CU_JIT_WALL_TIME) std::memcpy(slots_[i], &wall_time_ms, sizeof(wall_time_ms));
    if (options_[i] == CU_JIT_THREADS_PER_BLOCK && threads_per_block != 0) {
      std::memcpy(slots_[i], &threads_per_block, sizeof(threads_per_block));
    }
  }
}

CUresult FindParts(const void* image, ImageParts* parts) {
  Result<ImageParts> found = FindImageParts(image);
  if (!found.ok()) {
    LogError("an image cannot be loaded: {}", found.status().message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *parts = std::move(found).value();
  return CUDA_SUCCESS;
}

CUresult ImageUpload::Begin() {
  const bool names = call_.session().keeps_images();
  for (size_t i = 0; i < parts_.parts.size(); ++i) {
    const std::span<const std::byte> part = parts_.parts[i];
    blobs_.push_back(NewBlob());
    const bool named = names && part.size() >= kNamedBytesMin;
    if (named) named_.push_back(i);
    const CUresult result = named ? NameBlob(call_, blobs_[i], part) : WriteBlob(call_, blobs_[i], part);
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult ImageUpload::SendMissing(int32_t why) {
  if (why == kNoImageCache) call_.session().KeepsNoImages();
  for (const size_t i : named_) {
    if (CUresult result = WriteBlob(call_, blobs_[i], parts_.parts[i]); result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

CUresult ReadImageFile(const char* path, std::vector<std::byte>* bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::streamoff size = file.tellg();
  if (size < 0 || static_cast<uint64_t>(size) > kImageBytesMax) return CUDA_ERROR_FILE_NOT_FOUND;
  bytes->assign(static_cast<size_t>(size) + 1, std::byte{0});
  file.seekg(0);
  if (!file.read(reinterpret_cast<char*>(bytes->data()), size)) return CUDA_ERROR_FILE_NOT_FOUND;
  return CUDA_SUCCESS;
}

}  // namespace tessera

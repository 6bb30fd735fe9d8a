// DA9151D3: the cache of the compilers in this process. Observed with NVRTC and nvJitLink 13.0: for each result they make a key
// (slot 1) and look it up (3). If there is a result they release it at the end (6); if not, they compile and keep what they made
// (4). Then they release the key (2).

#include <cuda.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include "client-stub/hidden_tables/hidden_tables.h"
#include "client-stub/hidden_tables/table.h"
#include "client-stub/process/compile_cache.h"

namespace tessera {
namespace {

struct CompileCacheTag {
  static constexpr const char* kName = "COMPILE_CACHE";
  static constexpr size_t kWords = 7;
};

template <typename Number>
void AppendNumber(std::string* key, Number number) {
  key->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendText(std::string* key, const char* text) {
  if (text != nullptr) key->append(text);
  key->push_back('\0');
}

// Slot 1. A result is of this `kind` (1: machine code, 2: PTX), and made from `input` with `options`. `platform` and `build` are
// texts that tell the compiler. All arguments are part of the key.
CUresult MakeKey(std::string** key, uint32_t kind, const void* input, size_t input_bytes, const char* options,
                 const char* platform, const char* build, uint32_t architecture, uint64_t flags) {
  if (key == nullptr || input == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *key = new (std::nothrow) std::string;
  if (*key == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  AppendNumber(*key, kind);
  AppendNumber(*key, architecture);
  AppendNumber(*key, flags);
  AppendText(*key, options);
  AppendText(*key, platform);
  AppendText(*key, build);
  (*key)->append(static_cast<const char*>(input), input_bytes);
  return CUDA_SUCCESS;
}

// Slot 2.
CUresult ReleaseKey(std::string* key) {
  delete key;
  return CUDA_SUCCESS;
}

// Slot 3. The caller passes *result to slot 6 afterwards.
CUresult Find(const std::string* key, uint64_t, void** result, uint32_t* result_bytes) {
  if (key == nullptr || result == nullptr || result_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<std::byte> found;
  if (!CompileCache::Process().Load(*key, &found) || found.size() > UINT32_MAX) return CUDA_ERROR_NOT_FOUND;
  *result = std::malloc(found.size());
  if (*result == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::memcpy(*result, found.data(), found.size());
  *result_bytes = static_cast<uint32_t>(found.size());
  return CUDA_SUCCESS;
}

// Slot 4.
CUresult Keep(const std::string* key, uint64_t, const std::byte* result, size_t result_bytes) {
  if (key == nullptr || result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CompileCache::Process().Store(*key, {result, result_bytes});
  return CUDA_SUCCESS;
}

// Slot 6.
CUresult ReleaseResult(void* result) {
  std::free(result);
  return CUDA_SUCCESS;
}

}  // namespace

const void* CompileCacheTable() {
  static HiddenTable<CompileCacheTag> table;
  static const void* const filled =
      &table.Set(1, &MakeKey).Set(2, &ReleaseKey).Set(3, &Find).Set(4, &Keep).Set(6, &ReleaseResult);
  return filled;
}

}  // namespace tessera

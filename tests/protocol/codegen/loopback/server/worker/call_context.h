// Stands in for server/worker/call_context.h: the same interface over two maps. For loopback_test alone.
#pragma once

#include <cuda.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <vector>

#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"

namespace tessera {

struct DriverTable;

class CallContext {
 public:
  explicit CallContext(bool per_thread) : per_thread_(per_thread) {}

  const DriverTable& driver() const { return *table; }
  bool ok() const { return error_ == CUDA_SUCCESS; }
  CUresult error() const { return error_; }
  void Fail(CUresult error) { error_ = error; }

  template <typename T>
  T Use(HandleId id) {
    if (id.is_null()) return T{};
    if (!objects.contains(id.value())) Fail(CUDA_ERROR_INVALID_HANDLE);
    return T(objects[id.value()]);
  }
  CUstream UseStream(HandleId id) { return CUstream(id.is_null() && per_thread_ ? 2 : id.value()); }
  template <typename T>
  void New(HandleId id, T object) {
    objects[id.value()] = uint64_t(object);
  }
  void Free(HandleId id) { objects.erase(id.value()); }
  template <typename T>
  HandleId Known(HandleKind kind, T object) {
    for (const auto& [id, known] : objects) {
      if (known == uint64_t(object)) return HandleId(id);
    }
    const HandleId id = HandleId::Of(0, kind, 1, 1000 + objects.size());
    New(id, object);
    return id;
  }
  void* Scratch(size_t bytes) {
    if (bytes > 4096) {
      Fail(CUDA_ERROR_OUT_OF_MEMORY);
      return nullptr;
    }
    return scratch_.emplace_back(bytes, 0x55).data();
  }

  void Finish(CUresult result) { End(result); }
  template <typename Reply>
  void Finish(CUresult result, const Reply& reply) {
    End(result);
    Encoder encoder;
    if (result == CUDA_SUCCESS) reply.Encode(encoder);
    this->reply.assign(encoder.bytes().begin(), encoder.bytes().end());
  }
  void Malformed() {
    malformed = true;
    End(CUDA_ERROR_ILLEGAL_STATE);
  }

  static inline const DriverTable* table = nullptr;
  static inline std::map<uint64_t, uint64_t> objects;

  int ends = 0;
  bool malformed = false;
  CUresult result = CUDA_ERROR_UNKNOWN;
  std::vector<std::byte> reply;

 private:
  void End(CUresult end_result) {
    ++ends;
    result = end_result;
  }

  const bool per_thread_;
  CUresult error_ = CUDA_SUCCESS;
  std::deque<std::vector<unsigned char>> scratch_;
};

}  // namespace tessera

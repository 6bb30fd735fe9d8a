// Copies and sets as commands. Every copy, whatever its entry point, is one box of bytes between two endpoints.
//
// Pinned memory is touched when the command runs; a pageable source is read when the command is made, unless it becomes
// a node of a graph, which reads its source at each launch. Asynchronous copies of few bytes read pinned memory early as well, as
// a driver's do: see MayReadEarly.
// Source: CUDA driver API, cuMemcpy3D; "API synchronization behavior".
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "server/emulator/driver/core/state.h"
#include "server/emulator/driver/memory/array.h"

namespace tessera::emulator {

class CopyCommand : public Command {
 public:
  struct Endpoint {
    uint64_t address = 0;      // of the first byte
    uint64_t row_pitch = 0;    // bytes
    uint64_t slice_pitch = 0;  // bytes
    bool is_host = false;
    bool pageable = false;
    bool checked = false;  // memory of the table: checked again when the command runs
    std::shared_ptr<Array> array;
  };

  // Checks what cuMemcpy3D checks and resolves both endpoints. CUDA_ERROR_INVALID_VALUE natively for nearly everything.
  static CUresult Make(const Context& context, const CUDA_MEMCPY3D& copy, std::shared_ptr<CopyCommand>* command);

  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  CUresult Execute(Context& context) override;
  std::optional<uint64_t> paced_bytes() const override { return copy_.WidthInBytes * copy_.Height * copy_.Depth; }

  const CUDA_MEMCPY3D& copy() const { return copy_; }
  const Endpoint& source() const { return source_; }
  const Endpoint& destination() const { return destination_; }
  bool empty() const { return copy_.WidthInBytes == 0 || copy_.Height == 0 || copy_.Depth == 0; }
  // Whether a driver reads the source at the call where the stream itself has no work, although it may have to wait for other
  // streams by the rules of the legacy stream: at most 24,576 bytes of pinned memory, to the device (measured: driver 580, H100,
  // all asynchronous forms).
  bool MayReadEarly() const;
  // Reads the source now. Before the command is submitted.
  void StageSource();

 private:
  uint64_t SpanBytes(const Endpoint& endpoint) const;

  CUDA_MEMCPY3D copy_{};
  Endpoint source_;
  Endpoint destination_;
  std::vector<char> staged_;
};

class SetCommand : public Command {
 public:
  // Checks the shape of the set; with `check_memory` also what it sets. A set that is captured is not checked before
  // its graph is instantiated (measured: driver 580, H200).
  static CUresult Make(const CUDA_MEMSET_NODE_PARAMS& set, bool check_memory, std::shared_ptr<SetCommand>* command);
  bool MayInstantiate() const override;
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEMSET; }
  CUresult Execute(Context& context) override;
  std::optional<uint64_t> paced_bytes() const override { return set_.width * set_.elementSize * set_.height; }
  const CUDA_MEMSET_NODE_PARAMS& set() const { return set_; }
  bool to_host() const { return to_host_; }
  bool empty() const { return set_.width == 0 || set_.height == 0; }

 private:
  uint64_t SpanBytes() const;
  CUDA_MEMSET_NODE_PARAMS set_{};
  bool to_host_ = false;
};

// A copy of `size_bytes` with these endpoint types.
CUDA_MEMCPY3D LinearCopy(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, uint64_t size_bytes);

}  // namespace tessera::emulator

#include "server/emulator/driver/core/mem_op.h"

#include <time.h>

#include <algorithm>

#include "protocol/base/clock.h"

namespace tessera::emulator {
namespace {

// How long a wait sleeps between two looks: a part of the time that it has waited so far, within these bounds. Many streams that
// wait for long would else keep the processors from the one that they wait for.
constexpr uint64_t kPauseShare = 8;
constexpr uint64_t kPauseNsMin = 20'000;
constexpr uint64_t kPauseNsMax = 1'000'000;

template <typename T>
bool Holds(T value, T wanted, unsigned flags) {
  switch (flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ: return static_cast<std::make_signed_t<T>>(value - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return value == wanted;
    case CU_STREAM_WAIT_VALUE_AND: return (value & wanted) != 0;
    default: return static_cast<T>(~(value | wanted)) != 0;
  }
}

template <typename T>
CUresult Await(Context& context, uint64_t address, T wanted, unsigned flags) {
  const uint64_t since_ns = MonotonicNs();
  const T* location = reinterpret_cast<const T*>(address);
  while (!context.cancelled()) {
    if (!GetDriver().memory.Usable(address, sizeof(T))) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (Holds(__atomic_load_n(location, __ATOMIC_ACQUIRE), wanted, flags)) return CUDA_SUCCESS;
    LeaveDevice();
    const uint64_t pause_ns = std::clamp((MonotonicNs() - since_ns) / kPauseShare, kPauseNsMin, kPauseNsMax);
    const timespec pause{0, static_cast<long>(pause_ns)};
    nanosleep(&pause, nullptr);
  }
  return CUDA_SUCCESS;
}

template <typename T>
CUresult Write(uint64_t address, T value) {
  if (!GetDriver().memory.Usable(address, sizeof(T))) return CUDA_ERROR_ILLEGAL_ADDRESS;
  __atomic_store_n(reinterpret_cast<T*>(address), value, __ATOMIC_RELEASE);
  return CUDA_SUCCESS;
}

CUresult CheckAddress(uint64_t address, uint64_t bytes) {
  return address % bytes == 0 && GetDriver().memory.Covers(address, bytes, nullptr) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult MemOpCommand::Make(std::vector<CUstreamBatchMemOpParams> operations, std::shared_ptr<MemOpCommand>* command) {
  for (const CUstreamBatchMemOpParams& operation : operations) {
    switch (operation.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        RETURN_IF((operation.waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0, CUDA_ERROR_NOT_SUPPORTED);
        RETURN_IF((operation.waitValue.flags & ~3u) != 0, CUDA_ERROR_INVALID_VALUE);
        RETURN_ON_ERROR(CheckAddress(operation.waitValue.address, operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8));
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        RETURN_IF((operation.writeValue.flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0, CUDA_ERROR_INVALID_VALUE);
        RETURN_ON_ERROR(
            CheckAddress(operation.writeValue.address, operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8));
        break;
      case CU_STREAM_MEM_OP_BARRIER: break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: return CUDA_ERROR_NOT_SUPPORTED;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
  *command = std::make_shared<MemOpCommand>();
  (*command)->operations_ = std::move(operations);
  return CUDA_SUCCESS;
}

CUresult MemOpCommand::Execute(Context& context) {
  for (const CUstreamBatchMemOpParams& operation : operations_) {
    const auto& wait = operation.waitValue;
    const auto& write = operation.writeValue;
    switch (operation.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32: RETURN_ON_ERROR(Await<uint32_t>(context, wait.address, wait.value, wait.flags)); break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        RETURN_ON_ERROR(Await<uint64_t>(context, wait.address, wait.value64, wait.flags));
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32: RETURN_ON_ERROR(Write<uint32_t>(write.address, write.value)); break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64: RETURN_ON_ERROR(Write<uint64_t>(write.address, write.value64)); break;
      default: std::atomic_thread_fence(std::memory_order_seq_cst); break;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace tessera::emulator

#include "server/emulator/driver/core/mem_op.h"

#include "server/emulator/driver/graphs/capture.h"

namespace tessera::emulator {
namespace {

CUresult Operate(CUstream handle, std::vector<CUstreamBatchMemOpParams> operations) {
  ContextPtr context;
  StreamPtr stream;
  RETURN_ON_ERROR(EnterStream(handle, &context, &stream));
  std::shared_ptr<MemOpCommand> command;
  RETURN_ON_ERROR(MemOpCommand::Make(std::move(operations), &command));
  return Enqueue(context, stream, command);
}

template <typename T>
CUresult OperateOne(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr address, T value, unsigned flags) {
  CUstreamBatchMemOpParams operation{};
  operation.waitValue.operation = type;  // the wait and write forms lie alike
  operation.waitValue.address = address;
  if constexpr (sizeof(T) == 4) {
    operation.waitValue.value = value;
  } else {
    operation.waitValue.value64 = value;
  }
  operation.waitValue.flags = flags;
  return Operate(stream, {operation});
}

}  // namespace
}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return OperateOne(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags);
}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return OperateOne(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags);
}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return OperateOne(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags);
}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return OperateOne(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags);
}
CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
  RETURN_ON_ERROR(CheckEntry());
  RETURN_IF(count == 0 || count > 256 || paramArray == nullptr || flags != 0, CUDA_ERROR_INVALID_VALUE);
  return Operate(stream, {paramArray, paramArray + count});
}

// The first forms of these calls, which current drivers have but refuse: a program gets them only by asking for them.
CUresult cuStreamWaitValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned int) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamWaitValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned int) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamWriteValue32(CUstream, CUdeviceptr, cuuint32_t, unsigned int) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamWriteValue64(CUstream, CUdeviceptr, cuuint64_t, unsigned int) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return CUDA_ERROR_NOT_SUPPORTED;
}
CUresult cuStreamBatchMemOp(CUstream, unsigned int, CUstreamBatchMemOpParams*, unsigned int) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"

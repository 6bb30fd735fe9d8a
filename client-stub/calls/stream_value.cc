// Values that streams write to memory and wait for.

#include <cuda.h>

#include <span>
#include <vector>

#include "client-stub/call/call.h"
#include "client-stub/device_work/device_work.h"
#include "client-stub/memory/memory_operations.h"
#include "generated/client_custom.h"
#include "generated/messages/stream.h"

namespace tessera {
namespace {

template <typename Request, typename Value>
CUresult OperateOn(Call& call, CUstream stream, CUdeviceptr address, Value value, unsigned flags) {
  constexpr bool kWaits = TouchesNothing<Request>;
  if (!call.ok()) return call.result();
  Request request;
  request.stream = call.UseStream(stream);
  uint64_t reached = address;
  if (!ReachMemOp(call, &reached, kWaits, call.capturing())) return call.result();
  request.addr = reached;
  request.value = value;
  request.flags = flags;
  if constexpr (kWaits) {
    return call.Sync(request);
  } else {
    return WorkOnAnything(call).Sync(request);
  }
}

template <typename Request>
CUresult OperateOnAll(Call& call, CUstream stream, unsigned count, const CUstreamBatchMemOpParams* operations, unsigned flags) {
  if (!call.ok()) return call.result();
  if (count != 0 && operations == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  Request request;
  request.stream = call.UseStream(stream);
  const std::vector<CUstreamBatchMemOpParams> reached = ReachMemOps(call, std::span(operations, count), call.capturing());
  if (!call.ok()) return call.result();
  request.count = count;
  request.paramArray.Borrow(reached);
  request.flags = flags;
  return WorkOnAnything(call).Sync(request);
}

}  // namespace

#define TESSERA_VALUE(name, type)                                                                         \
  CUresult Custom_##name(Call& call, CUstream stream, CUdeviceptr addr, type value, unsigned int flags) { \
    return OperateOn<name##Request>(call, stream, addr, value, flags);                                    \
  }

TESSERA_VALUE(cuStreamWriteValue32, cuuint32_t)
TESSERA_VALUE(cuStreamWriteValue32_v2, cuuint32_t)
TESSERA_VALUE(cuStreamWriteValue64, cuuint64_t)
TESSERA_VALUE(cuStreamWriteValue64_v2, cuuint64_t)
TESSERA_VALUE(cuStreamWaitValue32, cuuint32_t)
TESSERA_VALUE(cuStreamWaitValue32_v2, cuuint32_t)
TESSERA_VALUE(cuStreamWaitValue64, cuuint64_t)
TESSERA_VALUE(cuStreamWaitValue64_v2, cuuint64_t)

#undef TESSERA_VALUE

CUresult Custom_cuStreamBatchMemOp(Call& call, CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                                   unsigned int flags) {
  return OperateOnAll<cuStreamBatchMemOpRequest>(call, stream, count, paramArray, flags);
}

CUresult Custom_cuStreamBatchMemOp_v2(Call& call, CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                                      unsigned int flags) {
  return OperateOnAll<cuStreamBatchMemOp_v2Request>(call, stream, count, paramArray, flags);
}

}  // namespace tessera

#include "server/driver/trial.h"

#include <fmt/core.h>

#include <cstdint>

namespace tessera {
namespace {

constexpr uint32_t kAnswer = 42;
constexpr const char* kKernel = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry trial(.param .u64 place)
{
  .reg .b32 %r;
  .reg .b64 %rd;
  ld.param.u64 %rd, [place];
  cvta.to.global.u64 %rd, %rd;
  mov.u32 %r, 42;
  st.global.u32 [%rd], %r;
  ret;
}
)";

// Calls one function after the other, until one fails.
class Calls {
 public:
  template <typename Function, typename... Arguments>
  Calls& Make(const char* name, Function function, Arguments... arguments) {
    if (!status_.ok()) return *this;
    const CUresult result = function == nullptr ? CUDA_ERROR_NOT_SUPPORTED : function(arguments...);
    if (result != CUDA_SUCCESS) {
      status_ = Status(StatusCode::kUnavailable, fmt::format("{} fails with {}", name, static_cast<int>(result)));
    }
    return *this;
  }
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

}  // namespace

Status TryDriver(const DriverTable& driver) {
  Calls calls;
  CUdevice device = 0;
  int mode = CU_COMPUTEMODE_PROHIBITED;
  calls.Make("cuInit", driver.cuInit, 0U)
      .Make("cuDeviceGet", driver.cuDeviceGet, &device, 0)
      .Make("cuDeviceGetAttribute", driver.cuDeviceGetAttribute, &mode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, device);
  if (!calls.ok() || mode != CU_COMPUTEMODE_DEFAULT) return calls.status();
  CUcontext context = nullptr;
  CUdeviceptr place = 0;
  CUmodule module = nullptr;
  CUfunction kernel = nullptr;
  CUevent event = nullptr;
  calls.Make("cuDevicePrimaryCtxRetain", driver.cuDevicePrimaryCtxRetain, &context, device);
  calls.Make("cuCtxSetCurrent", driver.cuCtxSetCurrent, context)
      .Make("cuMemAlloc", driver.cuMemAlloc_v2, &place, sizeof(kAnswer))
      .Make("cuModuleLoadData", driver.cuModuleLoadData, &module, kKernel);
  calls.Make("cuModuleGetFunction", driver.cuModuleGetFunction, &kernel, module, "trial")
      .Make("cuEventCreate", driver.cuEventCreate, &event, 0U);
  void* parameters[] = {&place};
  uint32_t answer = 0;
  calls
      .Make("cuLaunchKernel", driver.cuLaunchKernel, kernel, 1U, 1U, 1U, 1U, 1U, 1U, 0U, CUstream{}, parameters,
            static_cast<void**>(nullptr))
      .Make("cuEventRecord", driver.cuEventRecord, event, CUstream{})
      .Make("cuEventSynchronize", driver.cuEventSynchronize, event)
      .Make("cuMemcpyDtoH", driver.cuMemcpyDtoH_v2, &answer, place, sizeof(answer));
  if (calls.ok() && answer != kAnswer)
    return Status(StatusCode::kUnavailable, fmt::format("a kernel wrote {} for {}", answer, kAnswer));
  return calls.status();
}

}  // namespace tessera

#include "server/emulator/driver/core/event_commands.h"

#include "server/emulator/driver/device/device_time.h"

namespace tessera::emulator {
namespace {

class CompleteFence : public Command {
 public:
  explicit CompleteFence(FencePtr fence) : fence_(std::move(fence)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EVENT_RECORD; }
  CUresult Execute(Context&) override {
    fence_->Complete();
    return CUDA_SUCCESS;
  }

 private:
  const FencePtr fence_;
};

class AwaitFence : public Command {
 public:
  explicit AwaitFence(FencePtr fence) : fence_(std::move(fence)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_WAIT_EVENT; }
  CUresult Execute(Context&) override {
    if (fence_ == nullptr || fence_->done()) return CUDA_SUCCESS;
    LeaveDevice();
    fence_->Wait();
    return CUDA_SUCCESS;
  }

 private:
  const FencePtr fence_;
};

}  // namespace

// Only the forms made for a launch run.
CUresult EventRecordCommand::Execute(Context&) { return CUDA_ERROR_UNKNOWN; }
CUresult EventWaitCommand::Execute(Context&) { return CUDA_ERROR_UNKNOWN; }

CommandPtr EventRecordCommand::ForLaunch(std::vector<FencePtr>* pending) {
  auto fence = std::make_shared<Fence>();
  event_->SetRecord(fence);
  pending->push_back(fence);
  return std::make_shared<CompleteFence>(fence);
}

CommandPtr EventWaitCommand::ForLaunch(std::vector<FencePtr>*) { return std::make_shared<AwaitFence>(event_->record()); }

}  // namespace tessera::emulator

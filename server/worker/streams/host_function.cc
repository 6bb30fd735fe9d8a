#include "server/worker/streams/host_function.h"

#include <memory>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "generated/driver_table.h"
#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/object_table.h"
#include "server/worker/worker.h"

namespace tessera {

// Outlives the worker: the driver may call a trampoline at any time until the process ends.
struct HostFunctions::Gate {
  Mutex mutex;
  ConditionVariable idle;
  Worker* worker GUARDED_BY(mutex) = nullptr;  // null: the session is over
  size_t running GUARDED_BY(mutex) = 0;
};

struct HostFunctions::Target {
  std::shared_ptr<Gate> gate;
  uint64_t function;
  bool repeats;
  WrittenRange written;
  std::vector<std::byte> note;
  HandleId object{};         // of a destructor
  HeldStreams::Wait wait{};  // of a function that runs once
};

// Unless the session is over.
template <typename Action>
void HostFunctions::WithWorker(const std::shared_ptr<Gate>& gate, Action action) {
  Worker* worker = nullptr;
  {
    MutexLock lock(gate->mutex);
    worker = gate->worker;
    if (worker == nullptr) return;
    ++gate->running;
  }
  if (!worker->ended()) action(*worker);
  MutexLock lock(gate->mutex);
  if (--gate->running == 0) gate->idle.notify_all();
}

namespace {

// The targets of graph nodes, which only the driver points to: remembered, so that a leak checker tells them from what was
// lost.
struct NodeTargets {
  Mutex mutex;
  std::unordered_set<const void*> targets GUARDED_BY(mutex);

  static NodeTargets& Get() {
    static auto* const all = new NodeTargets;
    return *all;
  }
};

HostFunctions::Target* Remember(std::unique_ptr<HostFunctions::Target> target) {
  NodeTargets& all = NodeTargets::Get();
  MutexLock lock(all.mutex);
  all.targets.insert(target.get());
  return target.release();
}

// The target of a node that is gone.
std::unique_ptr<HostFunctions::Target> TakeBack(void* data) {
  NodeTargets& all = NodeTargets::Get();
  MutexLock lock(all.mutex);
  all.targets.erase(data);
  return std::unique_ptr<HostFunctions::Target>(static_cast<HostFunctions::Target*>(data));
}

}  // namespace

HostFunctions::HostFunctions(Worker& worker) : worker_(worker), gate_(std::make_shared<Gate>()) {
  MutexLock lock(gate_->mutex);
  gate_->worker = &worker;
}

HostFunctions::~HostFunctions() {
  MutexLock lock(gate_->mutex);
  gate_->worker = nullptr;
  while (gate_->running != 0) gate_->idle.wait(gate_->mutex);
}

CUresult HostFunctions::Launch(CUstream stream, uint64_t function, Form form, bool repeats, const WrittenRange& written) {
  auto target = std::make_unique<Target>(Target{gate_, function, repeats, written, {}});
  // Whose stream it is: nobody tells that of one in a graph.
  if (!repeats) target->wait = worker_.gate().held_streams().Expect(stream, worker_.CurrentContext());
  const DriverTable& driver = worker_.driver();
  const CUresult result = form == Form::kHostFunction ? driver.cuLaunchHostFunc(stream, &RunHostFunction, target.get())
                                                      : driver.cuStreamAddCallback(stream, &RunCallback, target.get(), 0);
  if (result != CUDA_SUCCESS) return result;
  if (repeats) {
    Remember(std::move(target));
  } else {
    (void)target.release();  // the driver's, until it calls
  }
  return CUDA_SUCCESS;
}

CUDA_HOST_NODE_PARAMS HostFunctions::NodeParams(uint64_t function, std::span<const std::byte> note, const WrittenRange& written) {
  CUDA_HOST_NODE_PARAMS params{};
  params.fn = &RunHostFunction;
  params.userData = Remember(std::make_unique<Target>(Target{gate_, function, true, written, {note.begin(), note.end()}}));
  return params;
}

std::span<const std::byte> HostFunctions::NoteOf(const CUDA_HOST_NODE_PARAMS& params) {
  if (params.fn != &RunHostFunction) return {};
  return static_cast<const Target*>(params.userData)->note;
}

CUresult HostFunctions::ReleaseWith(CUgraph graph, const CUDA_HOST_NODE_PARAMS& params) {
  const DriverTable& driver = worker_.driver();
  if (driver.cuUserObjectCreate == nullptr || driver.cuGraphRetainUserObject == nullptr) return CUDA_SUCCESS;
  CUuserObject object = nullptr;
  CUresult result = driver.cuUserObjectCreate(&object, params.userData, &Release, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (result != CUDA_SUCCESS) return result;
  result = driver.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  return result;
}

void HostFunctions::Discard(const CUDA_HOST_NODE_PARAMS& params) { TakeBack(params.userData); }

void CUDA_CB HostFunctions::Release(void* data) {
  const std::unique_ptr<Target> target = TakeBack(data);
  WithWorker(target->gate,
             [&](Worker& worker) { worker.SendNotice(NoticeKind::kHostFunctionReleased, target->function, CUDA_SUCCESS); });
}

HostFunctions::Destructor HostFunctions::MakeDestructor(uint64_t function, HandleId object) {
  return {&RunDestructor, new Target{gate_, function, false, {}, {}, object}};
}

void HostFunctions::Drop(const Destructor& destructor) { delete static_cast<Target*>(destructor.data); }

void CUDA_CB HostFunctions::RunDestructor(void* data) {
  const std::unique_ptr<Target> target(static_cast<Target*>(data));
  WithWorker(target->gate, [&](Worker& worker) {
    worker.objects().Remove(target->object);
    worker.SendNotice(NoticeKind::kHostFunction, 0, CUDA_SUCCESS, std::as_bytes(std::span(&target->function, 1)));
  });
}

uint64_t HostFunctions::FunctionOf(const CUDA_HOST_NODE_PARAMS& params) {
  return params.fn == &RunHostFunction ? static_cast<const Target*>(params.userData)->function : 0;
}

void CUDA_CB HostFunctions::RunHostFunction(void* target) { Run(static_cast<Target*>(target), CUDA_SUCCESS); }

void CUDA_CB HostFunctions::RunCallback(CUstream, CUresult status, void* target) { Run(static_cast<Target*>(target), status); }

void HostFunctions::Run(Target* target, CUresult status) {
  const std::unique_ptr<Target> once(target->repeats ? nullptr : target);
  WithWorker(target->gate, [&](Worker& worker) {
    if (target->written.segment != 0) {
      const Status published = worker.channel().Publish(target->written.segment, target->written.offset, target->written.bytes);
      if (!published.ok()) return worker.End(published);
    }
    const uint64_t request = worker.answers().Open();
    if (request == 0) return;  // the session has ended
    const uint64_t function = target->function;
    HeldStreams& waits = worker.gate().held_streams();
    const uint64_t wait = waits.Began(target->wait);
    if (worker.SendNotice(NoticeKind::kHostFunction, request, status, std::as_bytes(std::span(&function, 1)))) {
      worker.answers().Wait(request);
    } else {
      worker.answers().Cancel(request);
    }
    waits.Ended(wait);
  });
}

}  // namespace tessera

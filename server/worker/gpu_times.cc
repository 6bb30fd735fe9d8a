#include "server/worker/gpu_times.h"

#include <algorithm>
#include <cmath>

#include "generated/driver_table.h"
#include "protocol/base/clock.h"
#include "server/worker/threads/thread_contexts.h"

namespace tessera {
namespace {

constexpr double kNsPerMs = 1e6;

bool IsLegacy(CUstream stream) { return stream == nullptr || stream == CU_STREAM_LEGACY; }

int64_t Ns(float ms) { return std::llround(static_cast<double>(ms) * kNsPerMs); }

}  // namespace

GpuTimes::Launch GpuTimes::Before(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUcontext context = contexts_.current();
  CUcontext own = context;
  if (context == nullptr || driver_.cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS) return {};
  if (status != CU_STREAM_CAPTURE_STATUS_NONE) return {};
  if (!IsLegacy(stream) && driver_.cuStreamGetCtx(stream, &own) != CUDA_SUCCESS) return {};
  if (own != context) return {};
  Launch launch;
  {
    MutexLock lock(mutex_);
    Clock& clock = clocks_[context];
    Look(clock, kLooks);
    if (clock.pending.size() >= kPendingMax || !Anchored(clock) || !TakeEvents(clock, &launch)) return {};
    launch.context = context;
    launch.anchor = clock.anchor;
  }
  launch.asked_ns = MonotonicNs();
  if (driver_.cuEventRecord(launch.begin, stream) == CUDA_SUCCESS) return launch;
  driver_.cuEventDestroy_v2(launch.begin);
  driver_.cuEventDestroy_v2(launch.end);
  return {};
}

void GpuTimes::After(const Launch& launch, CUresult result, uint64_t sequence, const char* name, CUstream stream) {
  const bool measured =
      launch.begin != nullptr && result == CUDA_SUCCESS && driver_.cuEventRecord(launch.end, stream) == CUDA_SUCCESS;
  MutexLock lock(mutex_);
  const bool keeps = result == CUDA_SUCCESS && kept_.size() < kTraceEventsMax;
  if (keeps) {
    const auto next = static_cast<uint32_t>(stream_numbers_.size());
    Kept kept;
    kept.work.sequence = sequence;
    kept.work.name = NumberOf(name);
    kept.work.stream = stream_numbers_.try_emplace({contexts_.current(), stream}, next).first->second;
    kept_.push_back(kept);
  }
  if (launch.begin == nullptr) return;
  Clock& clock = clocks_[launch.context];
  if (keeps && measured) {
    clock.pending.push_back({launch, kept_.size() - 1});
  } else {
    clock.idle.insert(clock.idle.end(), {launch.begin, launch.end});
  }
}

void GpuTimes::EndContext(CUcontext context) {
  MutexLock lock(mutex_);
  const auto found = clocks_.find(context);
  if (found == clocks_.end()) return;
  Clock& clock = found->second;
  Look(clock, clock.pending.size());
  for (const Pending& pending : clock.pending) clock.idle.insert(clock.idle.end(), {pending.launch.begin, pending.launch.end});
  for (const auto* events : {&clock.idle, &clock.anchored}) {
    for (const CUevent event : *events) driver_.cuEventDestroy_v2(event);
  }
  if (clock.stream != nullptr) driver_.cuStreamDestroy_v2(clock.stream);
  clocks_.erase(found);
}

std::vector<TraceWork> GpuTimes::Read(uint64_t first, uint64_t count) {
  MutexLock lock(mutex_);
  if (first == 0) {
    const CUcontext before = contexts_.current();
    for (auto& [context, clock] : clocks_) {
      if (contexts_.Set(context) == CUDA_SUCCESS) Look(clock, clock.pending.size());
    }
    if (contexts_.Set(before) != CUDA_SUCCESS) contexts_.Forget();
  }
  std::vector<TraceWork> read;
  for (uint64_t i = first; i < kept_.size() && read.size() < count; ++i) {
    TraceWork work = kept_[i].work;
    if (kept_[i].anchor != kNone) {
      work.begin_ns = anchors_[kept_[i].anchor].at_ns + static_cast<uint64_t>(kept_[i].begin_ns);
      work.end_ns = work.begin_ns + static_cast<uint64_t>(kept_[i].took_ns);
    }
    read.push_back(work);
  }
  return read;
}

std::vector<std::string_view> GpuTimes::Names(uint64_t first, size_t bytes) const {
  MutexLock lock(mutex_);
  std::vector<std::string_view> read;
  for (uint64_t i = first; i < names_.size(); ++i) {
    const std::string_view name = std::string_view(names_[i]).substr(0, kNameMax);
    if (name.size() > bytes) break;
    bytes -= name.size();
    read.push_back(name);
  }
  return read;
}

// A context in which this fails once is not measured: each try would cost its launches time.
bool GpuTimes::Anchored(Clock& clock) {
  const uint64_t now_ns = MonotonicNs();
  if (!clock.usable || (clock.anchor != kNone && now_ns - clock.anchored_ns < kAnchorNs)) return clock.usable;
  CUevent event = nullptr;
  clock.usable = (clock.stream != nullptr || driver_.cuStreamCreate(&clock.stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) &&
                 driver_.cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS;
  if (!clock.usable) return false;
  clock.anchored.push_back(event);
  clock.anchored_ns = MonotonicNs();
  clock.usable = driver_.cuEventRecord(event, clock.stream) == CUDA_SUCCESS;
  clock.anchor = anchors_.size();
  anchors_.push_back({event, clock.anchored_ns});
  return clock.usable;
}

bool GpuTimes::TakeEvents(Clock& clock, Launch* launch) {
  for (CUevent* const event : {&launch->begin, &launch->end}) {
    if (!clock.idle.empty()) {
      *event = clock.idle.back();
      clock.idle.pop_back();
    } else if (driver_.cuEventCreate(event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
      clock.usable = false;
      return false;
    }
  }
  return true;
}

void GpuTimes::Look(Clock& clock, size_t count) {
  for (size_t i = std::min(count, clock.pending.size()); i > 0; --i) {
    const Pending pending = clock.pending.front();
    clock.pending.pop_front();
    if (Measure(pending.launch, &kept_[pending.kept]) == CUDA_ERROR_NOT_READY) {
      clock.pending.push_back(pending);
    } else {
      clock.idle.insert(clock.idle.end(), {pending.launch.begin, pending.launch.end});
    }
  }
}

CUresult GpuTimes::Measure(const Launch& launch, Kept* kept) {
  if (const CUresult result = driver_.cuEventQuery(launch.end); result != CUDA_SUCCESS) return result;
  Anchor& anchor = anchors_[launch.anchor];
  float to_begin_ms = 0, took_ms = 0;
  CUresult result = driver_.cuEventElapsedTime(&to_begin_ms, anchor.event, launch.begin);
  if (result == CUDA_SUCCESS) result = driver_.cuEventElapsedTime(&took_ms, launch.begin, launch.end);
  if (result != CUDA_SUCCESS) return result;
  kept->begin_ns = Ns(to_begin_ms);
  kept->took_ns = std::max<int64_t>(Ns(took_ms), 0);
  kept->anchor = launch.anchor;
  anchor.at_ns = std::max(anchor.at_ns, launch.asked_ns - static_cast<uint64_t>(kept->begin_ns));
  return CUDA_SUCCESS;
}

uint32_t GpuTimes::NumberOf(const char* name) {
  const auto [found, added] = name_numbers_.try_emplace(name, static_cast<uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return found->second;
}

}  // namespace tessera

#include "client-stub/streams/capture.h"

#include <utility>
#include <vector>

namespace tessera {

CaptureTable::Capture* CaptureTable::Of(uint64_t stream_key) {
  const auto id = of_stream_.find(stream_key);
  if (id == of_stream_.end()) return nullptr;
  const auto capture = captures_.find(id->second);
  return capture == captures_.end() ? nullptr : &capture->second;
}

const CaptureTable::Capture* CaptureTable::Of(uint64_t stream_key) const {
  return const_cast<CaptureTable*>(this)->Of(stream_key);
}

CaptureTable::Capture* CaptureTable::OfEvent(uint64_t event, bool* over) {
  *over = false;
  const auto id = of_event_.find(event);
  if (id == of_event_.end()) return nullptr;
  const auto capture = captures_.find(id->second);
  *over = capture == captures_.end() || capture->second.invalid;
  return *over ? nullptr : &capture->second;
}

void CaptureTable::Invalidate(Capture& capture) { capture.invalid = true; }

void CaptureTable::Erase(uint64_t id) {
  const auto capture = captures_.find(id);
  if (capture == captures_.end()) return;
  for (const auto& [key, stream] : capture->second.streams) of_stream_.erase(key);
  captures_.erase(capture);
  captures_count_.store(captures_.size(), std::memory_order_release);
}

void CaptureTable::Join(Capture& capture, const StreamRef& stream) {
  capture.streams.emplace(stream.key, stream);
  of_stream_[stream.key] = capture.id;
}

// Whether a blocking stream of the context is captured: then the legacy stream, which would wait for it, must not be used.
bool CaptureTable::LegacyIsBlocked(uint64_t context, bool invalidate) {
  bool blocked = false;
  for (auto& [id, capture] : captures_) {
    for (const auto& [key, stream] : capture.streams) {
      if (!stream.blocking || stream.context != context) continue;
      blocked = true;
      if (invalidate) Invalidate(capture);
      break;
    }
  }
  return blocked;
}

CUresult CaptureTable::CheckUnsafeLocked(const Caller& caller) {
  if (caller.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  bool forbidden = false;
  for (auto& [id, capture] : captures_) {
    if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool own = capture.thread == caller.thread;
    const bool global = capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && caller.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !global) continue;
    forbidden = true;
    Invalidate(capture);
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CaptureTable::CheckUseLocked(const StreamRef& stream, Capture** capture) {
  *capture = nullptr;
  if (stream.legacy) {
    return LegacyIsBlocked(stream.context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  }
  *capture = Of(stream.key);
  if (*capture != nullptr && (*capture)->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  return CUDA_SUCCESS;
}

CUresult CaptureTable::CheckUnsafe(const Caller& caller) {
  if (idle()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  return CheckUnsafeLocked(caller);
}

CUresult CaptureTable::CheckUse(const StreamRef& stream, bool* capturing) {
  *capturing = false;
  if (idle()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  Capture* capture = nullptr;
  const CUresult result = CheckUseLocked(stream, &capture);
  *capturing = capture != nullptr;
  return result;
}

CUresult CaptureTable::CheckUncapturable(const StreamRef& stream) {
  if (idle()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  Capture* capture = nullptr;
  const CUresult result = CheckUseLocked(stream, &capture);
  if (capture == nullptr) return result;
  Invalidate(*capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CaptureTable::CheckQuery(const Caller& caller, const StreamRef& stream) {
  if (idle()) return CUDA_SUCCESS;
  if (const CUresult result = CheckUncapturable(stream); result != CUDA_SUCCESS) return result;
  return CheckUnsafe(caller);
}

CUresult CaptureTable::CheckContext(uint64_t context) {
  if (idle()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  bool captured = false;
  for (auto& [id, capture] : captures_) {
    for (const auto& [key, stream] : capture.streams) {
      if (stream.context != context) continue;
      captured = true;
      Invalidate(capture);
      break;
    }
  }
  return captured ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult CaptureTable::Begin(const Caller& caller, const StreamRef& stream, CUstreamCaptureMode mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL && mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  MutexLock lock(mutex_);
  if (stream.legacy) {
    return LegacyIsBlocked(stream.context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (Of(stream.key) != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  Capture& capture = captures_[next_id_];
  capture.id = next_id_++;
  capture.origin = stream.key;
  capture.thread = caller.thread;
  capture.mode = mode;
  Join(capture, stream);
  captures_count_.store(captures_.size(), std::memory_order_release);
  return CUDA_SUCCESS;
}

void CaptureTable::Drop(const StreamRef& stream) {
  MutexLock lock(mutex_);
  if (const Capture* capture = Of(stream.key)) Erase(capture->id);
}

CUresult CaptureTable::End(const Caller& caller, const StreamRef& stream, Ending* ending) {
  *ending = Ending::kNone;
  if (idle()) return CUDA_ERROR_ILLEGAL_STATE;
  MutexLock lock(mutex_);
  if (stream.legacy) {
    return LegacyIsBlocked(stream.context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_ERROR_ILLEGAL_STATE;
  }
  Capture* capture = Of(stream.key);
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream.key) {
    const bool was_invalid = capture->invalid;
    Invalidate(*capture);
    return was_invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  CUresult result = CUDA_SUCCESS;
  if (capture->invalid) {
    result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  } else if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != caller.thread) {
    result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  *ending = result == CUDA_SUCCESS ? Ending::kGraph : Ending::kDiscard;
  Erase(capture->id);
  return result;
}

CUresult CaptureTable::GetInfo(const StreamRef& stream, Info* info) const {
  *info = {};
  if (idle()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  if (stream.legacy) {
    const bool blocked = const_cast<CaptureTable*>(this)->LegacyIsBlocked(stream.context, false);
    return blocked ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
  }
  const Capture* capture = Of(stream.key);
  if (capture == nullptr) return CUDA_SUCCESS;
  info->status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  info->id = capture->id;
  info->uncertain = capture->uncertain && !capture->invalid;
  return CUDA_SUCCESS;
}

void CaptureTable::SetUncertain(const StreamRef& stream) {
  MutexLock lock(mutex_);
  if (Capture* capture = Of(stream.key)) capture->uncertain = true;
}

void CaptureTable::SetStatus(const StreamRef& stream, CUstreamCaptureStatus status) {
  MutexLock lock(mutex_);
  Capture* capture = Of(stream.key);
  if (capture == nullptr) return;
  capture->uncertain = false;
  if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE) Invalidate(*capture);
}

CUresult CaptureTable::RecordEvent(uint64_t event, const StreamRef& stream, bool external, bool* capturing) {
  *capturing = false;
  if (NothingMarked()) return external ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
  MutexLock lock(mutex_);
  Capture* capture = nullptr;
  if (const CUresult result = CheckUseLocked(stream, &capture); result != CUDA_SUCCESS) return result;
  *capturing = capture != nullptr;
  if (external) return capture != nullptr ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
  if (capture != nullptr) {
    of_event_[event] = capture->id;
  } else {
    of_event_.erase(event);
  }
  events_count_.store(of_event_.size(), std::memory_order_release);
  return CUDA_SUCCESS;
}

CUresult CaptureTable::WaitEvent(const StreamRef& stream, uint64_t event, bool recorded, bool external, bool* capturing) {
  *capturing = false;
  if (NothingMarked()) return external ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
  MutexLock lock(mutex_);
  bool over = false;
  Capture* of_event = external ? nullptr : OfEvent(event, &over);
  Capture* capture = nullptr;
  const CUresult use = CheckUseLocked(stream, &capture);
  if (use != CUDA_SUCCESS) {
    if (stream.legacy && of_event != nullptr) Invalidate(*of_event);
    return use;
  }
  *capturing = capture != nullptr;
  if (external) return capture != nullptr ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
  if (over) return CUDA_ERROR_INVALID_VALUE;
  if (of_event == nullptr) {
    if (capture == nullptr || !recorded) return CUDA_SUCCESS;
    Invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (stream.legacy) {
    Invalidate(*of_event);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (capture == nullptr) {
    Join(*of_event, stream);
    *capturing = true;
  } else if (capture != of_event) {
    Invalidate(*capture);
    Invalidate(*of_event);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  return CUDA_SUCCESS;
}

CUresult CaptureTable::CheckEventQuery(const Caller& caller, uint64_t event) {
  if (NothingMarked()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  bool over = false;
  if (Capture* capture = OfEvent(event, &over)) {
    Invalidate(*capture);
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (over) return CUDA_ERROR_INVALID_VALUE;
  return CheckUnsafeLocked(caller);
}

CUresult CaptureTable::CheckEventTime(uint64_t event) const {
  if (NothingMarked()) return CUDA_SUCCESS;
  MutexLock lock(mutex_);
  bool over = false;
  if (const_cast<CaptureTable*>(this)->OfEvent(event, &over) != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  return over ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

void CaptureTable::ForgetEvent(uint64_t event) {
  if (events_count_.load(std::memory_order_acquire) == 0) return;
  MutexLock lock(mutex_);
  of_event_.erase(event);
  events_count_.store(of_event_.size(), std::memory_order_release);
}

void CaptureTable::ForgetStream(uint64_t key) {
  if (idle()) return;
  MutexLock lock(mutex_);
  Capture* capture = Of(key);
  if (capture == nullptr) return;
  if (capture->origin == key) return Erase(capture->id);
  capture->streams.erase(key);
  of_stream_.erase(key);
}

void CaptureTable::ForgetContext(uint64_t context) {
  if (idle()) return;
  MutexLock lock(mutex_);
  std::vector<uint64_t> gone;
  for (const auto& [id, capture] : captures_) {
    for (const auto& [key, stream] : capture.streams) {
      if (stream.context == context) {
        gone.push_back(id);
        break;
      }
    }
  }
  for (uint64_t id : gone) Erase(id);
}

}  // namespace tessera

#include "netaware/node/placer_stream.h"

#include <utility>

#include "protocol/base/printable.h"

namespace tessera {

void PlacerStream::Begin(control::v1::NodeService::Stub& stub) {
  stub.async()->Attach(&context_, this);
  AddHold();  // other threads start writes until a read fails: the hold keeps the call open
  StartRead(&read_);
  StartCall();
}

void PlacerStream::Send(control::v1::FromNode message) {
  MutexLock lock(mutex_);
  if (is_over_) return;
  if (unsent_.size() >= kUnsentMax) {
    if (why_.empty()) why_ = "the placer does not read";
    context_.TryCancel();
    return;
  }
  unsent_.push_back(std::move(message));
  if (unsent_.size() == 1) StartWrite(&unsent_.front());
}

void PlacerStream::End(const std::string& why) {
  MutexLock lock(mutex_);
  if (why_.empty()) why_ = why;
  context_.TryCancel();
}

Status PlacerStream::Wait() {
  MutexLock lock(mutex_);
  while (!done_) ended_.wait(mutex_);
  return *done_;
}

void PlacerStream::OnReadDone(bool ok) {
  if (ok) {
    queue_.Push([self = shared_from_this(), message = std::move(read_)] {
      self->heard_(message);
      self->Handled();
    });
    read_ = {};
  }
  MutexLock lock(mutex_);
  if (!ok) {
    is_over_ = true;
    RemoveHold();
  } else if (++unhandled_ < kReadAhead) {
    StartRead(&read_);
  } else {
    rests_ = true;
  }
}

void PlacerStream::Handled() {
  MutexLock lock(mutex_);
  --unhandled_;
  if (!std::exchange(rests_, false)) return;
  StartRead(&read_);
}

void PlacerStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  unsent_.pop_front();
  if (ok && !is_over_ && !unsent_.empty()) StartWrite(&unsent_.front());
}

void PlacerStream::OnDone(const grpc::Status& status) {
  MutexLock lock(mutex_);
  StatusCode code = StatusCode::kUnavailable;
  if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) code = StatusCode::kPermissionDenied;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) code = StatusCode::kVersionMismatch;
  std::string why = why_;
  if (why.empty()) why = status.ok() ? "it has ended the stream" : Printable(status.error_message());
  done_ = Status(code, std::move(why));
  ended_.notify_all();
}

}  // namespace tessera

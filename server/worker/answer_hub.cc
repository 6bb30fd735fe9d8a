#include "server/worker/answer_hub.h"

#include <pthread.h>

#include <cstring>
#include <utility>
#include <vector>

#include "protocol/base/log.h"
#include "protocol/channel/channel.h"
#include "protocol/wire/record.h"
#include "server/worker/session_end.h"

namespace tessera {

AnswerHub::AnswerHub(Channel& channel, SessionEnd& end) : channel_(channel), end_(end), thread_([this] { Loop(); }) {}

AnswerHub::~AnswerHub() { Stop(); }

uint64_t AnswerHub::Open() { return Open(nullptr); }

uint64_t AnswerHub::Open(std::function<void()> then) {
  MutexLock lock(mutex_);
  if (stopped_) return 0;
  const uint64_t id = ++last_;
  open_.emplace(id, Request{false, std::move(then)});
  return id;
}

bool AnswerHub::Wait(uint64_t id) {
  MutexLock lock(mutex_);
  for (;;) {
    const auto found = open_.find(id);
    if (found == open_.end()) return false;
    if (found->second.answered || stopped_) {
      const bool answered = found->second.answered;
      open_.erase(found);
      return answered;
    }
    answered_.wait(mutex_);
  }
}

void AnswerHub::OnHostChanges(std::function<bool(std::span<const std::byte>)> take) {
  MutexLock lock(mutex_);
  take_changes_ = std::move(take);
}

void AnswerHub::AwaitHostChanges(uint64_t messages) {
  MutexLock lock(mutex_);
  while (changes_taken_ < messages && !stopped_) answered_.wait(mutex_);
}

void AnswerHub::OnAside(std::function<bool(uint64_t, std::span<const std::byte>)> take) {
  MutexLock lock(mutex_);
  take_aside_ = std::move(take);
}

void AnswerHub::Cancel(uint64_t id) {
  MutexLock lock(mutex_);
  open_.erase(id);
}

void AnswerHub::Stop() {
  ReleaseAll();
  if (thread_.joinable()) thread_.join();
}

void AnswerHub::Loop() {
  pthread_setname_np(pthread_self(), "tessera-answer");
  RingConsumer& answers = channel_.answers_in();
  RecordBuffer buffer;
  for (;;) {
    const std::span<const std::byte> record = answers.CopyOut(&buffer);
    if (!record.empty()) {
      if (Take(record)) continue;
      end_.End(Status(StatusCode::kProtocolViolation,
                      "the client sent an answer that answers nothing, or more calls at once than host functions make"));
      break;
    }
    if (!answers.Wait(kNoDeadline, channel_.stop()).ok()) break;
  }
  ReleaseAll();
}

bool AnswerHub::Take(std::span<const std::byte> record) {
  ReplyHeader header;
  if (record.size() < sizeof(header)) return false;
  std::memcpy(&header, record.data(), sizeof(header));
  if (header.kind == static_cast<uint32_t>(AnswerKind::kHostChanges)) {
    MutexLock lock(mutex_);
    if (take_changes_ == nullptr || !take_changes_(record.subspan(sizeof(header)))) return false;
    ++changes_taken_;
    answered_.notify_all();
    return true;
  }
  if (header.kind == static_cast<uint32_t>(AnswerKind::kAside)) {
    MutexLock lock(mutex_);
    return take_aside_ != nullptr && take_aside_(header.extra, record.subspan(sizeof(header)));
  }
  if (header.kind != static_cast<uint32_t>(AnswerKind::kHostFunctionDone)) return false;
  std::function<void()> then;
  {
    MutexLock lock(mutex_);
    const auto found = open_.find(header.extra);
    // A number that was given up meanwhile is no mistake of the client's; one that was never handed out is.
    if (found == open_.end()) return header.extra != 0 && header.extra <= last_;
    if (found->second.then == nullptr) {
      found->second.answered = true;
      answered_.notify_all();
      return true;
    }
    then = std::move(found->second.then);
    open_.erase(found);
  }
  then();
  return true;
}

void AnswerHub::ReleaseAll() {
  std::vector<std::function<void()>> released;
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    for (auto request = open_.begin(); request != open_.end();) {
      if (request->second.then == nullptr) {
        ++request;
        continue;
      }
      released.push_back(std::move(request->second.then));
      request = open_.erase(request);
    }
    answered_.notify_all();
  }
  for (const auto& then : released) then();
}

}  // namespace tessera

#include "server/broker/usage/usage_front.h"

#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "protocol/channel/unix_socket.h"
#include "protocol/wire/encoder.h"
#include "server/broker/usage/usage_counts.h"

namespace tessera {
namespace {

constexpr int kGapMs = 1'000;
constexpr int kMessagesAtOnce = 64;

template <typename Message>
Status SendTo(int line, const Message& message) {
  Encoder out(kUsageMessageBytesMax);
  message.Encode(out);
  return SendMessage(line, out.bytes(), {}, 0);
}

Status Nobody() { return Status(StatusCode::kUnavailable, "the server's keeper of usage records does not answer: try again"); }

}  // namespace

Result<UsageFront*> UsageFront::Start(UniqueFd line, MetricsBoard& board) {
  auto* const front = new UsageFront(std::move(line), board);  // as long as the process
  try {
    std::thread([front] { front->Run(); }).detach();
  } catch (const std::system_error& error) {
    return Status::FromErrno("cannot start a thread for usage records", error.code().value());
  }
  return front;
}

void UsageFront::Run() {
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);
  uint64_t tell_ns = MonotonicNs();
  for (;;) {
    const uint64_t now_ns = MonotonicNs();
    if (now_ns >= tell_ns) {
      tell_ns = now_ns + uint64_t{kGapMs} * 1'000'000;
      Tell();
      GiveUp();
    }
    pollfd ready{line_.get(), POLLIN, 0};
    poll(&ready, 1, static_cast<int>((tell_ns - now_ns) / 1'000'000) + 1);
    if (ready.revents != 0) Hear();
  }
}

void UsageFront::Tell() {
  std::shared_ptr<const Metrics> now = board_.last();
  if (now == nullptr || now == told_) return;
  bool lost = false;
  for (const UsageBatch& batch : UsageSince(told_.get(), *now, time(nullptr))) lost = !SendTo(line_.get(), batch).ok() || lost;
  if (lost && !lost_) LogWarning("usage records are lost: their keeper does not take them");
  lost_ = lost;
  told_ = std::move(now);
}

void UsageFront::Ask(UsageQuery query, Heard heard) {
  {
    MutexLock lock(mutex_);
    if (asked_.size() < kAskedMax) {
      query.id = ++last_id_;
      asked_[query.id] = {std::move(heard), {}, MonotonicNs() + kAnswerNs};
      heard = nullptr;
    }
  }
  if (heard != nullptr) return heard(Status(StatusCode::kUnavailable, "too many ask for usage records: try again"));
  if (!SendTo(line_.get(), query).ok()) Finish(query.id, Nobody());
}

void UsageFront::Hear() {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    Result<SocketMessage> message = ReceiveMessage(line_.get(), kUsageMessageBytesMax, 0);
    if (!message.ok()) return;
    Result<UsageAnswer> answer = UsageAnswer::Decode(message->bytes);
    if (!answer.ok()) {
      LogWarning("{}", answer.status().message());
      continue;
    }
    if (answer->code != StatusCode::kOk) {
      Finish(answer->id, Status(answer->code, answer->sentence));
      continue;
    }
    std::vector<UsageAnswer::Row> rows;
    {
      MutexLock lock(mutex_);
      const auto found = asked_.find(answer->id);
      if (found == asked_.end()) continue;  // it was given up
      std::vector<UsageAnswer::Row>& have = found->second.rows;
      have.insert(have.end(), std::make_move_iterator(answer->rows.begin()), std::make_move_iterator(answer->rows.end()));
      if (answer->goes_on && have.size() <= kUsageRowsMax) continue;
      rows = std::move(have);
    }
    Finish(answer->id, std::move(rows));
  }
}

void UsageFront::GiveUp() {
  std::vector<uint64_t> late;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, asked] : asked_) {
      if (MonotonicNs() >= asked.until_ns) late.push_back(id);
    }
  }
  for (const uint64_t id : late) Finish(id, Nobody());
}

void UsageFront::Finish(uint64_t id, Rows rows) {
  Heard heard;
  {
    MutexLock lock(mutex_);
    const auto found = asked_.find(id);
    if (found == asked_.end()) return;
    heard = std::move(found->second.heard);
    asked_.erase(found);
  }
  heard(std::move(rows));
}

}  // namespace tessera

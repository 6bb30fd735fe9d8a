#include "server/worker/executor.h"

#include <cstring>
#include <vector>

#include "generated/server/dispatch.h"
#include "protocol/channel/channel.h"
#include "server/worker/answer_hub.h"
#include "server/worker/call_context.h"
#include "server/worker/completion.h"
#include "server/worker/execute_record.h"
#include "server/worker/helper_pool.h"
#include "server/worker/worker.h"

namespace tessera {

Executor::Executor(Worker& worker) : worker_(worker), aside_(worker), old_spin_(AdaptiveSpin::LongNsMax()) {
  worker.answers().OnAside([this](uint64_t after, std::span<const std::byte> record) { return aside_.Post(after, record); });
}

Executor::~Executor() {
  worker_.End(Status(StatusCode::kUnavailable, "the worker was stopped"));
  worker_.answers().Stop();  // posts nothing any more
  aside_.Stop();
}

Status Executor::Run() {
  Loop();
  worker_.End(Status::Ok());
  return worker_.end().reason();
}

void Executor::Loop() {
  Channel& channel = worker_.channel();
  RingConsumer& commands = channel.commands_in();
  Completion& completion = worker_.completion();
  completion.BeginExecutor();
  // Ends the session as well: what stands behind a record that waits in vain is not to go in without a wait.
  worker_.gate().SetStop(
      [&] {
        Status status = worker_.gate().MayGoOn();
        if (status.ok()) status = channel.stop()();
        if (!status.ok()) worker_.End(channel.peer_left() ? Status::Ok() : status);
        return worker_.ended() ? Status(StatusCode::kUnavailable, "the session has ended") : Status::Ok();
      },
      [&commands] { commands.WakeWaiters(); });
  completion.OnEnd([&gate = worker_.gate()] { gate.SawEnd(); });
  // Nobody wakes it when the gate closes: it looks whenever it looks after the session.
  const StopPredicate stop = [&] {
    if (Status status = worker_.gate().MayGoOn(); !status.ok()) return status;
    return worker_.gate().HasNews() ? Status(StatusCode::kTimedOut, "the gate is another one") : channel.stop()();
  };
  RecordBuffer buffer;
  while (!worker_.ended()) {
    const std::span<const std::byte> record = commands.CopyOut(&buffer);
    if (record.empty()) {
      // What a client waits for is answered from here as long as there is nothing else to do.
      if (AwaitOwn()) continue;
      const Status status = commands.Wait(worker_.gate().Rest(), stop);
      if (!status.ok() && status.code() != StatusCode::kTimedOut) {
        worker_.End(channel.peer_left() ? Status::Ok() : status);
        return;
      }
      continue;
    }
    completion.GiveOwn();
    RecordHeader header;
    std::memcpy(&header, record.data(), sizeof(header));
    if (!Check(header)) return;
    const std::span<const std::byte> message = record.subspan(sizeof(header));
    if (IsBlocking(header.call)) {
      HandToHelper(header, message);
    } else {
      ExecuteRecord(worker_, header, message);
    }
    worker_.NoteExecuted(header.sequence);
  }
}

bool Executor::AwaitOwn() {
  Completion& completion = worker_.completion();
  Completion::Own own = completion.PollOwn();
  if (own == Completion::Own::kOld) {
    const RingConsumer& commands = worker_.channel().commands_in();
    const auto anything = [&] {
      own = completion.PollOwn();
      return own != Completion::Own::kOld || commands.HasRecord() || worker_.ended();
    };
    const bool may_go_on = AdaptiveSpin::LongNsMax() > AdaptiveSpin::kNsMax;
    if (!may_go_on || !old_spin_.Spin(anything)) {
      completion.GiveOwn();
      return false;
    }
  }
  // The gate asks next whether the stream is idle. To the driver it is busy for a microsecond still, and asking again takes
  // longer.
  if (own == Completion::Own::kDone && worker_.gate().closed()) [[unlikely]]
    completion.Settle();
  return own != Completion::Own::kNone;
}

bool Executor::Check(const RecordHeader& header) {
  const bool good = IsWellFormed(header) && header.sequence == last_sequence_ + 1;
  last_sequence_ = header.sequence;
  if (!good) RefuseHeader(worker_, header);
  return good;
}

void Executor::HandToHelper(const RecordHeader& header, std::span<const std::byte> message) {
  // Only this thread may wait at the gate.
  if (worker_.gate().closed()) [[unlikely]]
    AwaitRecord(worker_, header, message);
  // The caller waits for the reply, so at most one copy per client thread is alive.
  auto copy = std::make_shared<const std::vector<std::byte>>(message.begin(), message.end());
  worker_.gate().idle_watch().Away();
  const bool taken = worker_.helpers().Run([&worker = worker_, header, copy] {
    ExecuteRecord(worker, header, *copy);
    worker.gate().idle_watch().Back();
  });
  if (taken) return;
  worker_.gate().idle_watch().Back();
  CallContext(worker_, header).Finish(CUDA_ERROR_OUT_OF_MEMORY);
}

}  // namespace tessera

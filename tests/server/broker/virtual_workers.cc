#include "tests/server/broker/virtual_workers.h"

#include <algorithm>

namespace tessera {

bool VirtualWorker::IsOpen(int64_t now_ns, size_t row) const {
  const GateWord word = pages->Word(row);
  return word.mode != GateMode::kMetered || static_cast<uint64_t>(now_ns) < word.open_until_ns;
}

void VirtualWorker::Step(int64_t now_ns, int64_t* gpu_free_ns) {
  ReportPage::Row& row = pages->report().rows[0];
  const bool metered = pages->Word().mode == GateMode::kMetered;
  const bool ended = runs_until_ns != 0 && now_ns >= runs_until_ns;
  if (ended) runs_until_ns = 0;
  const bool starts = runs_until_ns == 0 && greedy && IsOpen(now_ns);
  if (starts) {
    const int64_t begin_ns = std::max(now_ns, *gpu_free_ns);
    *gpu_free_ns = runs_until_ns = begin_ns + kernel_ns;
    used_ns += kernel_ns;
    ++pages->report().executed;
    ++row.launches;
    if (row.busy_since_ns == 0) row.busy_since_ns = static_cast<uint64_t>(now_ns);
  } else if (ended && row.busy_since_ns != 0) {
    const uint64_t count = row.span_count;
    row.spans[count % ReportPage::kSpans].begin_ns = row.busy_since_ns.load();
    row.spans[count % ReportPage::kSpans].end_ns = static_cast<uint64_t>(now_ns);
    row.span_count = count + 1;
    row.busy_since_ns = 0;
    rings += metered ? 1 : 0;
  }
  const bool wants = runs_until_ns == 0 && greedy;
  if (wants != (row.wants_since_ns != 0)) {
    row.wants_since_ns = wants ? static_cast<uint64_t>(now_ns) : 0;
    rings += metered && wants ? 1 : 0;  // that it has begun is no reason to wake anybody
  }
}

// Its spans end together, as those of a worker do.
void VirtualWorker::StepAll(int64_t now_ns, std::span<int64_t> gpus_free_ns) {
  ReportPage& page = pages->report();
  if (runs_until_ns != 0 && now_ns >= runs_until_ns) {
    for (const size_t gpu : lockstep) {
      ReportPage::Row& row = page.rows[gpu];
      if (row.busy_since_ns == 0) continue;
      const uint64_t count = row.span_count;
      row.spans[count % ReportPage::kSpans].begin_ns = row.busy_since_ns.load();
      row.spans[count % ReportPage::kSpans].end_ns = static_cast<uint64_t>(now_ns);
      row.span_count = count + 1;
      row.busy_since_ns = 0;
    }
    runs_until_ns = 0;
    ++rings;
    if (launched == lockstep.size()) {
      launched = 0;
      ++steps;
    }
  }
  while (greedy && launched < lockstep.size() && IsOpen(now_ns, lockstep[launched])) {
    const size_t gpu = lockstep[launched++];
    gpus_free_ns[gpu] = std::max(now_ns, gpus_free_ns[gpu]) + kernel_ns;
    runs_until_ns = std::max(runs_until_ns, gpus_free_ns[gpu]);
    used_ns += kernel_ns;
    ++page.executed;
    ++page.rows[gpu].launches;
    if (page.rows[gpu].busy_since_ns == 0) page.rows[gpu].busy_since_ns = static_cast<uint64_t>(now_ns);
  }
  for (const size_t gpu : lockstep) {
    const bool wants = greedy && launched < lockstep.size() && lockstep[launched] == gpu;
    if (wants == (page.rows[gpu].wants_since_ns != 0)) continue;
    page.rows[gpu].wants_since_ns = wants ? static_cast<uint64_t>(now_ns) : 0;
    rings += wants ? 1 : 0;
  }
}

VirtualServer::VirtualServer(const BrokerOptions& options, size_t gpus, uint64_t context_bytes)
    : options_(options), gpus_(gpus), context_bytes_(context_bytes), poller_(Poller::Make().value()), gpus_free_ns_(gpus) {
  Restart();
}

void VirtualServer::Restart() {
  broker_.reset();
  broker_ = std::make_unique<Broker>(options_, poller_, [this](std::span<const std::byte> message) { Hear(message); });
  EXPECT_TRUE(broker_->Take(AsReceived(TestGpus(gpus_, context_bytes_)), now_ns_).ok());
  EXPECT_EQ(BrokerWordOf(heard_.back()), BrokerWord::kReady);
  again_ns_ = now_ns_;
}

void VirtualServer::GiveBack(const AnsweredRequests& answered) {
  Encoder out;
  answered.Encode(out);
  const UniqueFd file = TextFile({reinterpret_cast<const char*>(out.bytes().data()), out.bytes().size()});
  SocketMessage told = AsReceived(ToldMessage{out.bytes().size()});
  told.fds.emplace_back(dup(file.get()));
  EXPECT_TRUE(broker_->Take(std::move(told), now_ns_).ok());
}

void VirtualServer::Hear(std::span<const std::byte> message) {
  const BrokerWord word = BrokerWordOf(message);
  if (is_cut_off_ && word == BrokerWord::kKept) return;
  if (word == BrokerWord::kAlive) {
    ++alive_;
  } else if (word == BrokerWord::kFigures) {
    figures_ = FiguresMessage::Decode(message).value();
  } else if (word == BrokerWord::kOwners) {
    (void)OwnersMessage::Decode(message).value();
  } else if (word == BrokerWord::kAskAnswer) {
    answer_ = AskAnswer::Decode(message).value();
  } else if (word == BrokerWord::kReported) {
    reported_.push_back(ReportedMessage::Decode(message).value());
  } else if (word == BrokerWord::kKept) {
    kept_ = KeptMessage::Decode(message).value();
    for (AnsweredRequest& answered : std::exchange(with_next_kept_, {})) answered_.Add(std::move(answered));
  } else if (word == BrokerWord::kAnswered) {
    AnsweredMessage answered = AnsweredMessage::Decode(message).value();
    if (answered.with_next_kept) {
      with_next_kept_.push_back(std::move(answered.request));
    } else {
      answered_.Add(std::move(answered.request));
    }
  } else if (word == BrokerWord::kEnd) {
    to_end_.push_back(EndMessage::Decode(message).value());
  } else {
    heard_.emplace_back(message.begin(), message.end());
  }
}

VgpuFileAnswer VirtualServer::TakeFile(const std::string& text) {
  const UniqueFd file = TextFile(text);
  EXPECT_TRUE(broker_->Take(AsReceived(VgpuFileMessage{"vgpus.toml", 7, text.size()}, {file.get()}), now_ns_).ok());
  Turn();
  Result<VgpuFileAnswer> answer = VgpuFileAnswer::Decode(heard_.back());
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer->revision, 7u);
  return answer.value();
}

AskAnswer VirtualServer::Ask(const std::string& vgpus, const std::string& holder) {
  BeginToAsk({5, vgpus, holder});
  EXPECT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->id, 5u);
  return *answer_;
}

void VirtualServer::BeginToAsk(const AskMessage& ask) {
  answer_.reset();
  EXPECT_TRUE(broker_->Take(AsReceived(ask), now_ns_).ok());
  again_ns_ = broker_->Turn(now_ns_);
}

VirtualWorker& VirtualServer::Begin(const std::string& vgpus, uint32_t visible_rows) {
  VirtualWorker& worker = *workers_.emplace_back(std::make_unique<VirtualWorker>());
  worker.number = next_number_++;
  worker.pages->report().visible_rows = visible_rows;
  Tell(worker, vgpus);
  return worker;
}

void VirtualServer::Tell(VirtualWorker& worker, const std::string& vgpus) {
  EXPECT_TRUE(broker_->Take(AsReceived(CameMessage{worker.number, 1, vgpus}, worker.pages->Fds(process_)), now_ns_).ok());
  Turn();
}

void VirtualServer::End(VirtualWorker& worker) {
  worker.greedy = false;
  EXPECT_TRUE(broker_->Take(AsReceived(LeftMessage{worker.number}), now_ns_).ok());
  Turn();
}

void VirtualServer::RunFor(int64_t length_ns) {
  const int64_t end_ns = now_ns_ + length_ns;
  for (; now_ns_ < end_ns; now_ns_ += kStepNs) {
    bool rang = false;
    for (const std::unique_ptr<VirtualWorker>& worker : workers_) {
      const int64_t before = worker->rings;
      if (worker->lockstep.empty()) worker->Step(now_ns_, gpus_free_ns_.data());
      if (!worker->lockstep.empty()) worker->StepAll(now_ns_, gpus_free_ns_);
      if (worker->rings == before) continue;
      rang = true;
      broker_->Ring(worker->number, now_ns_);
    }
    if (!rang && now_ns_ < again_ns_) continue;
    ++turns_;
    again_ns_ = broker_->Turn(now_ns_);
  }
}

}  // namespace tessera

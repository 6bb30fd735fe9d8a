// A placer that is a test: takes any node that connects, sends the test's orders, and remembers the messages that it receives.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <time.h>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "generated/control/node.grpc.pb.h"
#include "protocol/base/mutex.h"
#include "protocol/ticket/ticket_keys.h"

namespace tessera {

class FakePlacer : public control::v1::NodeService::Service {
 public:
  using ToNode = control::v1::ToNode;
  using FromNode = control::v1::FromNode;
  using Order = control::v1::Order;
  static constexpr std::chrono::seconds kPatience{30};

  // `path`: empty: it gets connections of others.
  FakePlacer(const std::string& path, uint64_t epoch, const TicketSigner& signer) : epoch_(epoch), signer_(signer) {
    grpc::ServerBuilder builder;
    if (!path.empty()) builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakePlacer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Server& server() { return *server_; }

  static int64_t NowMs() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * int64_t{1'000} + now.tv_nsec / 1'000'000 + 5'000'000;  // of a clock of its own
  }

  grpc::Status Attach(grpc::ServerContext* context, grpc::ServerReaderWriter<ToNode, FromNode>* stream) override {
    FromNode message;
    if (!stream->Read(&message) || !message.has_registration()) return grpc::Status::OK;
    {
      MutexLock lock(mutex_);
      registrations_ += 1;
      registration_ = message.registration();
      beat_ = message.registration().state();
      changed_.notify_all();
      if (!refusal_.empty()) return {grpc::StatusCode::PERMISSION_DENIED, refusal_};
      stream_ = stream;
      ToNode welcome;
      welcome.mutable_welcome()->set_cluster("west");
      welcome.mutable_welcome()->set_epoch(epoch_);
      welcome.mutable_welcome()->add_ticket_keys(signer_.PublicPem());
      welcome.mutable_welcome()->set_now_ms(NowMs());
      if (!is_silent_) stream->Write(welcome);
    }
    while (stream->Read(&message)) {
      MutexLock lock(mutex_);
      if (message.has_answer()) answers_[message.answer().number()] = message.answer();
      if (message.has_beat()) {
        beat_ = message.beat();
        beats_ += 1;
      }
      changed_.notify_all();
    }
    MutexLock lock(mutex_);
    stream_ = nullptr;
    ends_ += 1;
    changed_.notify_all();
    return grpc::Status::OK;
  }

  // The order's number; 0: no node is there.
  uint64_t Send(Order::Kind kind, const Ticket& ticket, int64_t until_ms = NowMs() + 60'000) {
    MutexLock lock(mutex_);
    if (stream_ == nullptr) return 0;
    ToNode message;
    message.mutable_order()->set_number(++last_number_);
    message.mutable_order()->set_kind(kind);
    message.mutable_order()->set_grant(GrantText(ticket.grant));
    message.mutable_order()->set_until_ms(until_ms);
    const std::vector<std::byte> bytes = signer_.Sign(ticket);
    if (kind == Order::HOLD) message.mutable_order()->set_ticket(bytes.data(), bytes.size());
    stream_->Write(message);
    return last_number_;
  }
  // The node's answer: "done", or the reason why not.
  std::string Give(Order::Kind kind, const Ticket& ticket, int64_t until_ms = NowMs() + 60'000) {
    const uint64_t number = Send(kind, ticket, until_ms);
    if (number == 0) return "no node is there";
    if (!Wait([&]() REQUIRES(mutex_) { return answers_.contains(number); })) return "no answer";
    MutexLock lock(mutex_);
    return answers_[number].done() ? "done" : answers_[number].reason();
  }
  bool WaitForNode(int registrations = 1) {
    return Wait([&]() REQUIRES(mutex_) { return registrations_ >= registrations && stream_ != nullptr; });
  }
  bool WaitForEnds(int ends) {
    return Wait([&]() REQUIRES(mutex_) { return ends_ >= ends; });
  }
  bool WaitForBeat(const std::function<bool(const control::v1::Beat&)>& is_it) {
    return Wait([&]() REQUIRES(mutex_) { return beats_ > 0 && is_it(beat_); });
  }
  void Refuse(const std::string& why) {
    MutexLock lock(mutex_);
    refusal_ = why;
  }
  void BeSilent() {
    MutexLock lock(mutex_);
    is_silent_ = true;
  }
  bool WasDone(uint64_t number) {
    MutexLock lock(mutex_);
    return answers_.contains(number) && answers_[number].done();
  }
  control::v1::Registration registration() {
    MutexLock lock(mutex_);
    return registration_;
  }
  int registrations() {
    MutexLock lock(mutex_);
    return registrations_;
  }

 private:
  bool Wait(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    while (!is_so()) {
      if (changed_.wait_until(mutex_, end) == std::cv_status::timeout) return false;
    }
    return true;
  }

  const uint64_t epoch_;
  const TicketSigner& signer_;
  Mutex mutex_;
  ConditionVariable changed_;
  grpc::ServerReaderWriter<ToNode, FromNode>* stream_ GUARDED_BY(mutex_) = nullptr;
  control::v1::Registration registration_ GUARDED_BY(mutex_);
  control::v1::Beat beat_ GUARDED_BY(mutex_);
  std::map<uint64_t, control::v1::OrderAnswer> answers_ GUARDED_BY(mutex_);
  std::string refusal_ GUARDED_BY(mutex_);
  bool is_silent_ GUARDED_BY(mutex_) = false;
  int registrations_ GUARDED_BY(mutex_) = 0;
  int beats_ GUARDED_BY(mutex_) = 0;
  int ends_ GUARDED_BY(mutex_) = 0;
  uint64_t last_number_ GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tessera

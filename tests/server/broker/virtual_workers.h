// A broker and workers in virtual time: what would take seconds takes milliseconds, and comes out the same every time.
//
//   VirtualServer server({}, 1);
//   server.TakeFile("[[vgpu]]\nname = 'a'\nrequest = 0.7\n");
//   VirtualWorker& a = server.Begin("a");
//   a.greedy = true;
//   server.RunFor(2'000'000'000);
//   EXPECT_NEAR(a.used_ns / 2e9, 0.7, 0.03);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/broker/broker.h"
#include "tests/server/broker/test_pages.h"

namespace tessera {

// A session that runs kernels of one length, one after another on GPU 0; or, in lockstep, one on each of its GPUs, and all again
// once all of them have ended.
struct VirtualWorker {
  uint64_t number = 0;
  std::unique_ptr<TestPages> pages = std::make_unique<TestPages>();
  bool greedy = false;  // wants to run all the time
  int64_t kernel_ns = 500'000;
  int64_t used_ns = 0;  // of the GPU
  int64_t rings = 0;
  int64_t runs_until_ns = 0;       // 0: it does not run
  std::vector<size_t> lockstep{};  // its GPUs, in its order
  size_t launched = 0;             // of these
  int64_t steps = 0;

  // As server/worker/gate does. `gpu_free_ns`: when the GPU has run what was given to it.
  void Step(int64_t now_ns, int64_t* gpu_free_ns);
  void StepAll(int64_t now_ns, std::span<int64_t> gpus_free_ns);
  bool IsOpen(int64_t now_ns, size_t row = 0) const;
};

class VirtualServer {
 public:
  static constexpr int64_t kStepNs = 10'000;

  VirtualServer(const BrokerOptions& options, size_t gpus, uint64_t context_bytes = 0);

  // The answer's code, and its sentence.
  VgpuFileAnswer TakeFile(const std::string& text);
  AskAnswer Ask(const std::string& vgpus, const std::string& holder);
  // Asks, and does not expect an answer at once; none: there has been none yet.
  void BeginToAsk(const AskMessage& ask);
  const std::optional<AskAnswer>& answer() const { return answer_; }
  // A worker of GPU 0, in these vGPUs.
  VirtualWorker& Begin(const std::string& vgpus, uint32_t visible_rows = 1);
  // What the broker gave to keep last.
  const KeptMessage& kept() const { return kept_; }
  void GiveBack(const KeptMessage& kept) { EXPECT_TRUE(broker_->Take(AsReceived(kept), now_ns_).ok()); }
  // Likewise, of answers.
  const AnsweredRequests& answered() const { return answered_; }
  void GiveBack(const AnsweredRequests& answered);
  // As if the broker ended in front of its next KeptMessage: the daemon does not hear it.
  void CutOffBeforeKept() { is_cut_off_ = true; }
  // The same workers, with a broker that was started anew and knows nothing yet.
  void Restart();
  void Tell(VirtualWorker& worker, const std::string& vgpus);
  void End(VirtualWorker& worker);
  void RunFor(int64_t length_ns);
  // For what happens without time passing.
  void Turn() { again_ns_ = broker_->Turn(now_ns_); }

  Broker& broker() { return *broker_; }
  const Gpu& gpu(size_t row = 0) { return broker_->gpu(row); }
  int64_t now_ns() const { return now_ns_; }
  int64_t turns() const { return turns_; }
  size_t alive_messages() const { return alive_; }
  const FiguresMessage& figures() const { return figures_; }
  const std::vector<ReportedMessage>& reported() const { return reported_; }
  const std::vector<EndMessage>& to_end() const { return to_end_; }  // sessions, as the daemon is told
  const TestProcess& process() const { return process_; }

 private:
  void Hear(std::span<const std::byte> message);

  const BrokerOptions options_;
  const size_t gpus_;
  const uint64_t context_bytes_;
  Poller poller_;
  TestProcess process_;
  std::unique_ptr<Broker> broker_;
  std::vector<std::unique_ptr<VirtualWorker>> workers_;
  std::vector<std::vector<std::byte>> heard_;
  size_t alive_ = 0;
  FiguresMessage figures_;  // the last ones
  std::vector<ReportedMessage> reported_;
  std::vector<EndMessage> to_end_;
  KeptMessage kept_;
  AnsweredRequests answered_;
  std::vector<AnsweredRequest> with_next_kept_;
  bool is_cut_off_ = false;
  std::optional<AskAnswer> answer_;
  int64_t now_ns_ = 1'000'000'000;
  int64_t again_ns_ = 0;
  std::vector<int64_t> gpus_free_ns_;
  int64_t turns_ = 0;
  uint64_t next_number_ = 1;
};

}  // namespace tessera

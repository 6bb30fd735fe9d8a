// The broker that a daemon starts (server/broker): decides whose turn it is on each GPU. A child of its own, started anew when it
// ends or hangs; who uses this then tells it everything again.
//
// One thread. Nothing here waits, but Start() for the first word of the first broker, and Stop().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/child_logs.h"
#include "protocol/base/status.h"
#include "protocol/base/unique_fd.h"
#include "server/daemon/caller_names.h"
#include "server/daemon/control_keys.h"
#include "server/daemon/gate_memory.h"
#include "server/daemon/message_line.h"
#include "server/daemon/options.h"
#include "server/gate/broker_line.h"

namespace tessera {

class BrokerProcess {
 public:
  // A broker that says nothing for so long is ended: it says every kBrokerAliveNs or so that it is there, from when it is ready.
  static constexpr uint64_t kHungNs = 2'000'000'000;
  // From the end of one to the start of the next: nothing at first, then twice as long each time it ends before it was ready or
  // within kHungNs since then.
  static constexpr uint64_t kPauseNs = 20'000'000;
  static constexpr int kCrashesMax = 10;
  // How long it may take to end in order.
  static constexpr uint64_t kEndNs = 500'000'000;

  // What it has said.
  struct Said {
    std::vector<AskAnswer> answers;
    std::vector<VgpuFileAnswer> files;
    std::vector<OwnersMessage> owners;
    std::optional<FiguresMessage> figures;    // the last ones
    std::optional<ReportedMessage> reported;  // likewise
    std::vector<EndMessage> to_end;           // sessions
    std::optional<KeptMessage> kept;          // the last one
    std::vector<AnsweredRequest> answered;    // to be kept with it
    std::vector<ControlKeysAnswer> keys;
  };

  BrokerProcess(const Options& options, GpusMessage gpus, ChildLogs& logs);

  // Before Start(): where brokers listen for the control API, for users of this host and by TLS; -1: nowhere. They stay open.
  void Offer(int control_listener) { control_listener_ = control_listener; }
  void OfferTls(int control_listener) { control_tls_listener_ = control_listener; }
  // The same of where they tell of what they count.
  void OfferMetrics(int listener) { metrics_listener_ = listener; }
  // And of their socket to the keeper of usage records.
  void OfferUsage(int line) { usage_line_ = line; }
  // Starts one and waits until it is ready. kNotFound: there is no such program; kVersionMismatch: it is of another release;
  // kUnavailable: it ended instead, and has said why in the log; kTimedOut: it did neither (Options::ready_timeout_s), and is
  // ended.
  Status Start();

  const std::vector<GpusMessage::Uuid>& gpus() const { return gpus_.uuids; }
  // For poll(), and Hear(); nothing while none runs.
  pollfd watched() const { return line_.watched(); }
  // Of callers of the control API whom it cannot name itself; for poll(), and when that is readable.
  int names_fd() const { return caller_names_.fd(); }
  void NameCallers() { caller_names_.Answer(); }

  // None of these is an error while none runs: the next one hears it from whoever calls these again.
  void Ask(const AskMessage& question);
  void Came(const CameMessage& session, const GateMemory& memory, int worker_pidfd);
  void Left(uint64_t session);
  void Found(uint64_t session, uint32_t device, FoundMessage::What what);
  void Seen(const SeenMessage& seen);
  // What its predecessor gave to keep.
  void GiveBack(const KeptMessage& kept);
  // What its predecessors answered, and that it has been told all. It changes nothing before.
  void Told(const AnsweredRequests& answered);
  // `text`: what stands in the file.
  void SendFile(const VgpuFileMessage& file, const std::string& text);

  // What connections to the control API by TLS begin with.
  void GiveKeys(const HandedKeys& keys);

  Said Hear();
  // Ends one that hangs; starts the next one when it is time. True when one was started: it knows nothing yet.
  bool Tend();
  // When Tend() has something to do (MonotonicNs), or kNoDeadline.
  uint64_t next_ns() const;
  // Ends it in order, and starts the next one at once: with options that have changed meanwhile.
  void StartAnew();
  // A child has ended: whether it was the broker. What it said before its end Hear() tells still.
  bool Forget(pid_t pid, int wait_status);
  // Ends it for good.
  void Stop();

 private:
  // Starts one, and tells it the server's GPUs.
  Status Launch();
  static Status CheckRelease(const ReadyMessage& ready);
  void Hear(const SocketMessage& message, Said* said);
  // How long it may say nothing.
  uint64_t silence_ns() const { return ready_ns_ != 0 ? kHungNs : options_.ready_timeout_ns(); }
  template <typename Message>
  void Send(const Message& message, std::span<const int> fds = {});

  const Options& options_;
  ChildLogs& logs_;
  const GpusMessage gpus_;
  int control_listener_ = -1, control_tls_listener_ = -1;
  CallerNames caller_names_;
  int metrics_listener_ = -1;
  int usage_line_ = -1;
  pid_t pid_ = -1;
  MessageLine line_;
  std::vector<AnsweredRequest> answered_;  // that count with its next KeptMessage
  Said last_;                              // of one that has ended
  uint64_t ready_ns_ = 0;                  // since when; 0: it is not
  uint32_t launches_ = 0;
  uint64_t heard_ns_ = 0;
  uint64_t start_at_ns_ = 0;  // 0: it is not to be started
  int crashes_ = 0;           // in a row
  bool is_asked_ = false;     // it was told to end, for another one
};

}  // namespace tessera

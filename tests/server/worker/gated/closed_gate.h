// A worker whose gate is closed, with a driver that records what it was asked.
//
//   ClosedGate gate;
//   const Passage passage = gate.Send(call, message);
//
// One lives at a time (RecordingDriver). Used by one thread.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/unique_fd.h"
#include "server/driver/recording_driver.h"
#include "server/gate/gate_page.h"
#include "server/gate/report_page.h"
#include "tests/server/worker/test_client.h"

namespace tessera {

// How a record went through.
struct Passage {
  bool waited = false;              // the report page said so, and no reply came until the gate was opened
  std::vector<std::string> before;  // what the driver was asked while the gate was closed, until the reply or the wait
  std::vector<std::string> after;   // and once it was open; nothing where nothing waited
  std::optional<TestReply> reply;
};

class ClosedGate {
 public:
  // `mirrored`: as of TestClient.
  explicit ClosedGate(bool mirrored = false);
  ~ClosedGate();

  // Sends a record and waits for its reply; if it waits at the gate, the gate is opened for it.
  Passage Send(uint32_t call, std::span<const std::byte> message);
  // A piece of pinned memory that client and worker share; 0 where the channel is mirrored.
  uint64_t pinned_memory() const { return pinned_; }
  // Records that passed the gate.
  uint64_t passed() const { return report_.rows[0].launches; }

 private:
  void PrepareDriver();
  void EnterObjects();
  void MakeMemory(bool mirrored);
  void SetGate(const GateWord& word);
  bool waits() const { return report_.rows[0].wants_since_ns != 0; }
  std::optional<TestReply> ReplyTo(uint64_t sequence, int timeout_ms);

  RecordingDriver driver_;
  GatePage page_{};
  ReportPage report_{};
  const UniqueFd event_;
  std::unique_ptr<TestClient> client_;
  uint64_t pinned_ = 0;
};

}  // namespace tessera

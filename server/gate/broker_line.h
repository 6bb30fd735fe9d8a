// The socket between the daemon and its broker (server/broker): what they say to one another. One message is one datagram of a
// SEQPACKET pair. The daemon begins with `GpusMessage`; a broker that was started anew hears everything again: GPUs, file,
// sessions.
//
//   daemon                              broker
//   GpusMessage                    ->
//                                  <-   ReadyMessage: it listens
//   VgpuFileMessage + text         ->
//                                  <-   VgpuFileAnswer
//   AskMessage                     ->
//                                  <-   AskAnswer
//   CameMessage + four descriptors ->   a session has begun
//   LeftMessage                    ->   its process has ended
//   FoundMessage                   ->   the audit has found a session that reports less than it uses
//   SeenMessage                    ->   which sessions report more memory than they use: all of them, when that has changed
//                                  <-   AliveMessage every kBrokerAliveNs
//                                  <-   OwnersMessage, one or several, before the next FiguresMessage, when vGPUs have changed
//                                  <-   FiguresMessage twice a second, while there are sessions or when vGPUs change
//                                  <-   ReportedMessage once a second, while a GPU is not free, or there are sessions whose
//                                       memory vGPUs with a limit cannot have
//                                  <-   EndMessage: the session's vGPU was deleted by force, at once, whenever it is to end
//                                  <-   AnsweredMessage before the answer to a change with a request id
//                                  <-   KeptMessage when the control API has changed something, before the answer
//   the last KeptMessage           ->   after the file, to a broker that was started anew
//   ToldMessage + answers          ->   behind that: it takes calls of the control API from then on
//   ControlKeysMessage + texts     ->   where the control API listens at tls://: at its begin, and when they have changed
//                                  <-   ControlKeysAnswer
//
// Decode() copies everything out of the bytes it reads and bounds it; kProtocolViolation for what is no such message. Plain
// structs, used by one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/server_query.h"
#include "server/gate/answered_requests.h"
#include "server/gate/gate_page.h"

namespace tessera {

inline constexpr size_t kBrokerMessageBytesMax = 128 * 1024;  // figures of 512 vGPUs with names of 63 bytes
// Of a file of vGPUs.
inline constexpr size_t kVgpuFileBytesMax = 1 << 20;

enum class BrokerWord : uint32_t {
  kNone = 0,
  kGpus = 1,
  kVgpuFile = 2,
  kAsk = 3,
  kCame = 4,
  kLeft = 5,
  kFound = 6,
  kControlKeys = 7,
  kTold = 8,
  kSeen = 9,
  kReady = 101,
  kVgpuFileAnswer = 102,
  kAskAnswer = 103,
  kAlive = 104,
  kFigures = 105,
  kReported = 106,
  kEnd = 107,
  kKept = 108,
  kControlKeysAnswer = 109,
  kAnswered = 110,
  kOwners = 111,
};
// What a message is; kNone for one that is none.
BrokerWord BrokerWordOf(std::span<const std::byte> message);

// The server's GPUs, in the order of the rows of the pages.
struct GpusMessage {
  using Uuid = std::array<std::byte, 16>;
  std::vector<Uuid> uuids;  // at most kGateRowsMax
  // Of each, by row. Encode() takes 0, not known, where there is none.
  std::vector<uint64_t> memory_bytes{};   // that vGPUs may have together
  std::vector<uint64_t> context_bytes{};  // that a context takes
  uint32_t waiting_workers = 0;           // that have a context and no session, as a rule

  void Encode(Encoder& out) const;
  static Result<GpusMessage> Decode(std::span<const std::byte> message);
};

// Travels with one descriptor: a memory file with what stands in the file now. It is in force when the answer is Ok, and nothing
// has changed otherwise.
struct VgpuFileMessage {
  std::string path;       // for sentences
  uint64_t revision = 0;  // of the answer
  uint64_t size_bytes = 0;

  void Encode(Encoder& out) const;
  static Result<VgpuFileMessage> Decode(std::span<const std::byte> message);
};
struct VgpuFileAnswer {
  uint64_t revision = 0;
  StatusCode code = StatusCode::kOk;
  std::string sentence;  // with the line and the field; empty when the code is kOk

  void Encode(Encoder& out) const;
  static Result<VgpuFileAnswer> Decode(std::span<const std::byte> message);
};

// May a client of this holder begin a session in these vGPUs, or ask about them?
struct AskMessage {
  uint64_t id = 0;
  std::string vgpus;        // as the client says: "NAME" or "NAME+NAME"; any bytes
  std::string holder;       // of the client (protocol/wire/holder.h)
  bool begins = true;       // false: it only asks how they are, and needs no room there
  bool will_begin = false;  // it only asks, but of one who is about to begin: it waits for a place among the sessions as those do

  void Encode(Encoder& out) const;
  static Result<AskMessage> Decode(std::span<const std::byte> message);
};
struct AskAnswer {
  uint64_t id = 0;
  StatusCode code = StatusCode::kOk;  // kPermissionDenied: no such vGPU, or none for this holder: the same words for both
  std::string sentence;
  std::vector<uint32_t> rows;             // the GPUs of the session, in its order
  std::vector<uint64_t> memory_limits{};  // of its vGPU on each; Encode() takes 0, no limit, where there is none
  std::vector<uint64_t> context_bytes{};  // likewise: what its first context is to take of that limit; 0: it has its room

  void Encode(Encoder& out) const;
  static Result<AskAnswer> Decode(std::span<const std::byte> message);
};

// A session has a worker. Travels with four descriptors: gate page (to be written), report page, eventfd, pidfd of the worker.
struct CameMessage {
  static constexpr size_t kDescriptors = 4;
  uint64_t session = 0;
  uint32_t worker_pid = 0;
  std::string vgpus;  // as in its AskMessage; empty: `default` of each GPU that its report page calls visible

  void Encode(Encoder& out) const;
  static Result<CameMessage> Decode(std::span<const std::byte> message);
};
struct LeftMessage {
  uint64_t session = 0;

  void Encode(Encoder& out) const;
  static Result<LeftMessage> Decode(std::span<const std::byte> message);
};

struct FoundMessage {
  enum class What : uint32_t { kTime = 1, kMemory = 2 };
  uint64_t session = 0;
  uint32_t device = 0;  // a row
  What what = What::kTime;

  void Encode(Encoder& out) const;
  static Result<FoundMessage> Decode(std::span<const std::byte> message);
};

// The sessions whose reports of memory are not believed (server/daemon/readings/memory_doubts.h). All others are from now on.
struct SeenMessage {
  static constexpr size_t kRowsMax = 3584;  // Encode() leaves out those beyond
  struct Row {
    uint64_t session = 0;
    uint32_t device = 0;      // a row
    uint64_t used_bytes = 0;  // of the GPU's memory, by its process
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> rows;

  void Encode(Encoder& out) const;
  static Result<SeenMessage> Decode(std::span<const std::byte> message);
};

struct ReadyMessage {
  std::string release;  // of the broker program

  void Encode(Encoder& out) const;
  static Result<ReadyMessage> Decode(std::span<const std::byte> message);
};
// How the GPUs are divided, and what each vGPU got; `device` is a row.
struct FiguresMessage {
  std::vector<ServerReport::Sharing> sharings;  // the audit's numbers are the daemon's to fill in. Encode() leaves out those
                                                // beyond kGateRowsMax, and vGPUs beyond kVgpusMax
  std::vector<ServerReport::Vgpu> vgpus;

  void Encode(Encoder& out) const;
  static Result<FiguresMessage> Decode(std::span<const std::byte> message);
};
// Who may see which vGPU, for the daemon's answers to whoever asks.
struct OwnersMessage {
  // Of a message's rows but for the last, which has one vGPU's owners at most.
  static constexpr size_t kTextBytesMax = 64 * 1024;
  static constexpr size_t kOwnersMax = 64;
  struct Row {
    std::string name;
    std::vector<std::string> owners;  // holders; empty: everybody

    size_t text_bytes() const;
    friend bool operator==(const Row&, const Row&) = default;
  };
  bool is_first = false;    // what was said before counts no more
  std::vector<Row> rows{};  // Encode() leaves out those beyond ServerReport::kVgpusMax, and owners beyond kOwnersMax

  void Encode(Encoder& out) const;
  static Result<OwnersMessage> Decode(std::span<const std::byte> message);
};
// What workers have said of themselves, for the audit (server/daemon/readings/audit.h). All times count from the session's begin,
// or the broker's; they go on only while the GPU is not free.
struct ReportedMessage {
  static constexpr size_t kRowsMax = 3584;  // Encode() leaves out those beyond
  struct Row {
    uint64_t session = 0;
    uint32_t device = 0;
    uint64_t watched_ns = 0;  // for so long the broker has looked at the worker
    uint64_t busy_ns = 0;     // and for so long of that it was busy, as it said
    uint64_t held_bytes = 0;  // of the GPU's memory, as it says now
  };
  uint64_t at_ns = 0;  // MonotonicNs
  std::vector<Row> rows;

  void Encode(Encoder& out) const;
  static Result<ReportedMessage> Decode(std::span<const std::byte> message);
};
// The session is to be ended then, also if there is another broker by that time.
struct EndMessage {
  uint64_t session = 0;
  uint64_t at_ns = 0;  // MonotonicNs

  void Encode(Encoder& out) const;
  static Result<EndMessage> Decode(std::span<const std::byte> message);
};
// The vGPUs that the control API has made, which the daemon keeps for the broker's successor.
struct KeptMessage {
  static constexpr size_t kTextBytesMax = 120 * 1024;
  uint64_t revision = 0;  // of the last change
  std::string text;       // as a file of vGPUs

  void Encode(Encoder& out) const;
  static Result<KeptMessage> Decode(std::span<const std::byte> message);
};
// What a change with a request id is answered. A change that has been made and its answer are kept together: the KeptMessage that
// follows this one keeps both, and without it neither is kept.
struct AnsweredMessage {
  bool with_next_kept = false;  // else nothing was changed, and this is to be kept by itself
  AnsweredRequest request;

  void Encode(Encoder& out) const;
  static Result<AnsweredMessage> Decode(std::span<const std::byte> message);
};
// Travels with one descriptor where there are bytes: a memory file with AnsweredRequests, those of the broker's predecessors.
struct ToldMessage {
  uint64_t answered_bytes = 0;  // AnsweredRequests::kBytesMax at most, and their number in front

  void Encode(Encoder& out) const;
  static Result<ToldMessage> Decode(std::span<const std::byte> message);
};
// Travels with one descriptor: a memory file with certificate, key, authority and names, one behind the other. They are what
// connections to the control API at tls:// begin with when the answer is Ok, and nothing has changed otherwise.
struct ControlKeysMessage {
  static constexpr size_t kTexts = 4;
  static constexpr size_t kTextBytesMax = size_t{1} << 20;  // of each

  uint64_t revision = 0;                      // of the answer
  std::string certificate, key, authority;    // their paths, for sentences
  bool restricted = false;                    // the names, one in a line, alone may connect
  std::array<uint64_t, kTexts> text_bytes{};  // certificate, key, authority, names

  void Encode(Encoder& out) const;
  static Result<ControlKeysMessage> Decode(std::span<const std::byte> message);
};
struct ControlKeysAnswer {
  uint64_t revision = 0;
  StatusCode code = StatusCode::kOk;
  std::string sentence;  // what is wrong, or, where nothing is, whose certificate it is and until when

  void Encode(Encoder& out) const;
  static Result<ControlKeysAnswer> Decode(std::span<const std::byte> message);
};
struct AliveMessage {
  void Encode(Encoder& out) const;
  static Result<AliveMessage> Decode(std::span<const std::byte> message);
};

}  // namespace tessera

// A query asks a server what it is, what it serves and how its devices are, or asks it to end a session. It begins no session.
// Each has a connection of its own, with one datagram each way (protocol/channel/query_server.h asks, server/daemon answers).
//
//   ServerQuery           ->
//                         <-    ServerReport or ServerRefusal (handshake.h), then the end
//
// Magic, kind, wire version and spec hash have the same place in every version. So a server answers a query of another version,
// and the asker decides what that means. Plain structs; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/memory_kind.h"

namespace tessera {

struct ServerQuery {
  static constexpr size_t kFieldsMax = 64;
  static constexpr uint64_t kGraceMsMax = 24 * 3'600'000;
  // What the asker wants to know of the devices. Some answers take the server no time, others many milliseconds.
  enum class Ask : uint8_t {
    kNothing = 0,      // what the server and its devices are
    kState = 1,        // of all devices: memory, load, power, clocks ..., and who uses them
    kDetails = 2,      // of `device`: everything else that does not change all the time, and the load of its users
    kTraffic = 3,      // of `device`: bytes over PCIe; each direction is counted for 20 ms
    kFields = 4,       // of `device`: the values of `fields`
    kLinks = 5,        // of `device`: its links, and how it is connected to the server's other devices
    kLinkDetails = 6,  // of `device`: errors and firmware of its links; a hundred calls that nobody needs to use a link
    // As kNothing, from a program that is about to begin a session in `vgpus`. If the server has no place, the query waits for
    // one, as a hello does; `no_place` of the report tells the outcome. kFull: one of the vGPUs is full.
    kBegin = 7,
    // Ends `session`, for its holder or an administrator; answered as kNothing. kInvalidArgument: the asker has no such session.
    kEnd = 8,
  };
  // A field of NVML (NVML_FI_*), and its scope: a link, or a scope of power; usually 0.
  struct Field {
    uint32_t field = 0;
    uint32_t scope = 0;
    friend bool operator==(const Field&, const Field&) = default;
  };

  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  Ask ask = Ask::kNothing;
  uint32_t device = 0;              // its number in the report's snapshot
  std::vector<Field> fields;        // at most kFieldsMax
  std::string vgpus;                // as ClientHello: the report shows only their GPUs, or the answer is a refusal
                                    // (kResourceExhausted)
  std::vector<std::byte> ticket{};  // as ClientHello: replaces `vgpus`
  std::string holder;               // as ClientHello: the report shows this holder's sessions
  uint64_t session = 0;             // the session to end (Session::session)
  uint64_t grace_ms = 0;            // how long it may still go on, at most kGraceMsMax
  uint32_t wait_ms = 0;             // for kBegin, as ClientHello

  void Encode(Encoder& out) const;
  // kProtocolViolation: it is no query. For a query of another wire version it fills in only the version and the hash.
  static Result<ServerQuery> Decode(std::span<const std::byte> message);
};

// A value that a server can read from a device while it works. The numbers are part of the protocol. A server leaves out what it
// cannot read. Units are those of NVML's functions (NVML API Reference). Most readings come from one such function each: see
// device_readings.def. The others are here.
enum class Reading : uint32_t {
  kMemoryTotalBytes = 1,
  kMemoryUsedBytes = 2,  // by all processes, without reserved memory
  kMemoryReservedBytes = 3,
  kGpuPercent = 10,  // share of the last sample period in which a kernel ran
  kMemoryPercent = 11,
  kPciDeviceId = 310,  // the vendor is in the low half
  kPciSubsystemId = 311,
  kPciBaseClass = 312,
  kPciSubClass = 313,
  kGspFirmwareVersion = 410,  // a text
  // Lists: the first place has the number of elements, which follow. Each memory clock has a list of graphics clocks; these lists
  // begin kClocksPlaces apart.
  kMemoryClocksMhz = 500,
  kGraphicsClocksMhz = 1000,
  // About this device and another one of the server. The other's number there is added to the reading's number.
  kCommonAncestor = 3100,    // nvmlDeviceGetTopologyCommonAncestor
  kPeerStatusNvLink = 3200,  // nvmlDeviceGetP2PStatus of NVML_P2P_CAPS_INDEX_NVLINK
  kPeerStatusPci = 3300,     // and of NVML_P2P_CAPS_INDEX_PCI
  // nvmlDeviceGetTopologyNearestGpus: six readings, for level 0, 10, 20 ... Each has a bit for each device of the server.
  kNearestDevices = 3400,
#define READING_NUMBER(ask, number, name, function) name = number,
#define READING_LARGE(ask, number, name, function) name = number,
#define READING_PAIR(ask, number, name, function) name = number,
#define READING_TRIPLE(ask, number, name, function) name = number,
#define READING_QUADRUPLE(ask, number, name, function) name = number,
#define READING_STRUCT32(ask, number, name, function, n) name = number,
#define READING_STRUCT64(ask, number, name, function, n) name = number,
#define READING_VERSIONED32(ask, number, name, function, n) name = number,
#define READING_VERSIONED64(ask, number, name, function, n) name = number,
#define READING_CHOICE(ask, number, name, function, n) name = number,
#define READING_CHOICE_PAIR64(ask, number, name, function, n) name = number,
#define READING_TWO_CHOICES(ask, number, name, function, n, m, k) name = number,
#define READING_THREE_CHOICES(ask, number, name, function, n, m, k) name = number,
#define READING_TEXT(ask, number, name, function) name = number,
#define READING_CHOICE_TEXT(ask, number, name, function, n) name = number,
#define READING_TWO_CHOICES32(ask, number, name, function, n, m) name = number,
#define READING_CHOICE_STRUCT32(ask, number, name, function, n, k) name = number,
#define READING_FORM32(ask, number, name, function, version, n) name = number,
#include "protocol/wire/device_readings.def"
};

// Added to the reading of a choice (device_readings.def) that NVML refuses, unless it says NVML_ERROR_NOT_SUPPORTED: the value is
// what it says.
inline constexpr uint32_t kRefusedReading = 1 << 20;
inline constexpr uint32_t kMemoryClocksMax = 8;
inline constexpr uint32_t kGraphicsClocksMax = 255;
inline constexpr uint32_t kClocksPlaces = kGraphicsClocksMax + 1;
inline constexpr uint32_t kLinksMax = 18;           // of one device; NVML_NVLINK_MAX_LINKS
inline constexpr uint32_t kLinkStateField = 165;    // NVML_FI_DEV_NVLINK_GET_STATE; its scope is the link
inline constexpr uint32_t kTopologyLevelStep = 10;  // between two values of nvmlGpuTopologyLevel_t
inline constexpr uint32_t kTopologyLevels = 6;

// The reading `places` after `first`, in the same line of device_readings.def.
constexpr Reading operator+(Reading first, uint32_t places) {
  return static_cast<Reading>(static_cast<uint32_t>(first) + places);
}

// The answer to a ServerQuery.
struct ServerReport {
  // Decode() enforces these bounds. Encode() leaves out uses beyond kUsesMax.
  static constexpr size_t kReadingsMax = 4096;  // of one device; most are clocks that it supports
  static constexpr size_t kTextsMax = 32;
  static constexpr size_t kUsesMax = 512;  // or fewer, if the message has no room

  struct Value {
    Reading reading{};
    uint64_t value = 0;
    friend bool operator==(const Value&, const Value&) = default;
  };
  struct Text {
    Reading reading{};
    std::string text;
    friend bool operator==(const Text&, const Text&) = default;
  };
  // The answer to a ServerQuery::Field. `result` is an nvmlReturn_t; the other values count only if it is 0. Units as in
  // nvmlFieldValue_t.
  struct FieldValue {
    ServerQuery::Field field;
    uint32_t result = 0;
    uint32_t type = 0;
    uint64_t value = 0;  // the bytes of NVML's union
    int64_t time_us = 0;
    int64_t latency_us = 0;
    friend bool operator==(const FieldValue&, const FieldValue&) = default;
  };
  // The shares of time in which a process used the engines of a device, in the last sample.
  struct Load {
    uint64_t time_us = 0;  // CLOCK_REALTIME of the server; 0: not known
    uint32_t sm_percent = 0;
    uint32_t memory_percent = 0;
    uint32_t encoder_percent = 0;
    uint32_t decoder_percent = 0;
    friend bool operator==(const Load&, const Load&) = default;
  };
  // One session's use of one device.
  struct Use {
    static constexpr uint64_t kUnknown = UINT64_MAX;
    uint32_t pid = 0;  // as in its Session
    uint32_t device = 0;
    uint64_t used_bytes = kUnknown;
    Load load;             // for kDetails only
    uint64_t session = 0;  // the session's number
    friend bool operator==(const Use&, const Use&) = default;
  };
  // What the sessions that are not shown use of one device, as a sum.
  struct Others {
    uint32_t device = 0;
    uint32_t sessions = 0;    // those that have a context there
    uint64_t used_bytes = 0;  // of those sessions for which it is known
    friend bool operator==(const Others&, const Others&) = default;
  };

  // One session, whether or not it uses a device yet. A report shows the asking holder's sessions, or all to an administrator.
  struct Session {
    uint64_t session = 0;  // its number, as in logs
    uint32_t pid = 0;      // of the client, in the server's pid namespace; on another host, in the client's own
    uint64_t age_ms = 0;
    std::string program;  // as the client calls it
    std::string vgpus;    // as ClientHello
    std::string user;     // its user's name: as the server's host knows it, or as another host claims
    std::string host;     // the server's host, or the address from which the connection comes
    std::string name;     // its holder (holder.h)
    friend bool operator==(const Session&, const Session&) = default;
  };
  // Encode() leaves out sessions beyond these two bounds, and those that do not fit into the message with the rest of the report.
  // It counts them among `other_sessions`.
  static constexpr size_t kSessionsMax = 512;
  static constexpr size_t kSessionTextsMax = 64 * 1024;

  // What all sessions of one holder take of the server. A report shows the asking holder, or all holders to an administrator.
  struct Holder {
    std::string name;
    uint32_t sessions = 0;
    uint32_t starts_waiting = 0;
    uint32_t shared_objects = 0;
    uint32_t descriptors = 0;  // those of the shared objects
    uint64_t host_memory_bytes = 0;

    static constexpr size_t kBytesMin = 4 + 4 * 4 + 8;
    void Put(Encoder& out) const;
    void Get(Decoder& in);
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  static constexpr size_t kHoldersMax = 64;  // Encode() leaves out the rest

  // How the time of one device is divided.
  struct Sharing {
    uint32_t device = 0;
    std::string policy;
    std::string mode;                // "free": nobody shares it; "armed": the others rest; "metered": tokens divide it
    uint32_t unreported = 0;         // how many sessions the audit has found to use it without reporting that
    uint32_t unreported_memory = 0;  // how many it has found to use more of its memory than they report

    static constexpr size_t kBytesMin = 5 * 4;
    void Put(Encoder& out) const;
    void Get(Decoder& in);
    friend bool operator==(const Sharing&, const Sharing&) = default;
  };
  static constexpr size_t kSharingsMax = 64;
  // One vGPU on one device. Shares are parts of the device's time, 0 to 1.
  struct Vgpu {
    std::string name;
    uint32_t device = 0;
    double request = 0;
    double limit = 1;
    std::string priority;
    uint32_t sessions = 0;
    bool waits = false;      // it waits for a token
    double got_1s = 0;       // its share of the last second; 0 while the device is not metered, since nothing is counted then
    double got_10s = 0;      // its share of the last ten seconds
    uint64_t waited_ms = 0;  // time spent waiting for tokens, in all
    // How long work ran that the vGPU's sessions had queued before the device became shared. It counts from then until their
    // drivers were first seen idle; while the work still runs, until now. 0: the device is free, or nothing was queued.
    uint64_t queued_before_ms = 0;
    bool queued_before_runs = false;  // that work still runs
    uint64_t memory_limit_bytes = 0;  // for all its sessions together; 0: no limit
    uint64_t memory_held_bytes = 0;
    MemoryByKind memory_held_by_kind{};  // adds up to memory_held_bytes, or to less while programs allocate and free

    static constexpr size_t kBytesMin = 4 + 4 + 2 * 8 + 4 + 4 + 1 + 3 * 8 + 8 + 1 + 2 * 8 + 8 * kMemoryKinds;
    static constexpr double kShareMax = 1'000;
    void Put(Encoder& out) const;
    // `in` fails for a share that is NaN, negative or beyond kShareMax.
    void Get(Decoder& in);
    friend bool operator==(const Vgpu&, const Vgpu&) = default;
  };
  static constexpr size_t kVgpusMax = 512;  // Encode() leaves out the rest

  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  std::string server;          // name and version of the server program: "tesserad 0.1.0"
  std::string driver;          // what it uses: "cuda", "emulator", or the path of a library
  std::string driver_release;  // release of the GPU's kernel driver, "580.159.04"; empty: not known, or not asked for
  uint32_t sessions = 0;
  uint32_t sessions_max = 0;
  bool needs_vgpu = false;                   // it refuses sessions that name no vGPU
  std::vector<std::byte> snapshot;           // DeviceSnapshot of all devices of the server
  std::vector<std::vector<Value>> readings;  // a list for each device of the snapshot; empty: it was not asked for
  std::vector<Text> texts;                   // of the device that kDetails asked for
  std::vector<FieldValue> fields;            // as asked for; for kLinks the state of each link; empty from a server without NVML
  std::vector<Use> uses;                     // of the sessions that have a context; empty: not asked for
  std::vector<Session> session_list;         // empty for kNothing
  uint32_t other_sessions = 0;               // how many sessions are not shown; 0 for kNothing
  std::vector<Others> others;                // what those sessions use; one element for each device
  std::vector<Holder> holders;               // empty for kNothing
  std::vector<Sharing> sharings;             // empty from a server without vGPUs
  std::vector<Vgpu> vgpus;                   // `sharings` and `vgpus` are for kNothing and kState only
  // Bytes that the context of one more session takes of each device of the snapshot; 0: not known. Empty: not measured.
  std::vector<uint64_t> context_bytes;
  // What the server does about sessions that use a device without reporting it: "off", "log" or "end". "blind": it cannot tell.
  std::string audit;
  std::string vgpu_problem;  // why the present file of vGPUs is not in force; empty: it is
  // For kBegin only: why no session of the asker can begin now, as a sentence for people. Empty: one can.
  std::string no_place;
  bool ending = false;  // the server takes no more sessions, and ends with the last one

  void Encode(Encoder& out) const;
  // kProtocolViolation: it is no report. For a report of another wire version it fills in only the version and the hash.
  static Result<ServerReport> Decode(std::span<const std::byte> message);

 private:
  void PutRest(Encoder& out) const;  // writes all that follows `other_sessions`
};

}  // namespace tessera

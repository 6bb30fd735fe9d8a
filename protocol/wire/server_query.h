// A question to a server that begins no session: what it is, what it serves, how its devices are; or that a session ends. One
// datagram each way over a connection of its own (protocol/channel/query_server.h asks, server/daemon answers).
//
//   ServerQuery           ->
//                         <-    ServerReport, or ServerRefusal (handshake.h), and the end
//
// Magic, kind, wire version and spec hash have the same place in every version: a server answers a query of another
// version, and the asker decides what that means. Plain structs, used by one thread.
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
  // How much about the devices: what the server has to do for it takes none to many milliseconds.
  enum class Ask : uint8_t {
    kNothing = 0,      // what the server and its devices are
    kState = 1,        // of all devices: memory, load, power, clocks ..., and who uses them
    kDetails = 2,      // of `device`: everything else that does not change every moment, and the load of those who use it
    kTraffic = 3,      // of `device`: bytes over PCIe, which are counted for 20 ms each
    kFields = 4,       // of `device`: the values of `fields`
    kLinks = 5,        // of `device`: its links, and how it is connected to the server's other devices
    kLinkDetails = 6,  // of `device`: errors and firmware of its links: a hundred calls that nobody makes to use a link
    // As kNothing, of one who is about to begin a session in `vgpus`: kFull where one of them is full, and the report says
    // whether the server has a place (`no_place`). Where it has none the question waits for one, as a hello does.
    kBegin = 7,
    // That `session` ends, of its holder or an administrator: answered as kNothing. kInvalidArgument: there is none for who asks.
    kEnd = 8,
  };
  // A field of NVML (NVML_FI_*), and what it is asked of: a link, a scope of power; 0 as a rule.
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
  std::string vgpus;                // as ClientHello: the report names their GPUs alone, or it is a refusal
                                    // (kResourceExhausted)
  std::vector<std::byte> ticket{};  // as ClientHello: instead of `vgpus`
  std::string holder;               // as ClientHello: whose sessions the report shows
  uint64_t session = 0;             // to be ended, as Session::session
  uint64_t grace_ms = 0;            // from now on, at most kGraceMsMax
  uint32_t wait_ms = 0;             // of kBegin, as ClientHello

  void Encode(Encoder& out) const;
  // kProtocolViolation for what is no query. Of a query of another wire version no more than the hash is filled in.
  static Result<ServerQuery> Decode(std::span<const std::byte> message);
};

// What can be read from a device while it works. The numbers are part of the protocol; a server leaves out what it
// cannot read. Units are those of NVML's functions (NVML API Reference), which tell the server most of it:
// device_readings.def. The others are here.
enum class Reading : uint32_t {
  kMemoryTotalBytes = 1,
  kMemoryUsedBytes = 2,  // by everybody, reserved memory not included
  kMemoryReservedBytes = 3,
  kGpuPercent = 10,  // share of the last sample period in which a kernel ran
  kMemoryPercent = 11,
  kPciDeviceId = 310,  // vendor in the low half
  kPciSubsystemId = 311,
  kPciBaseClass = 312,
  kPciSubClass = 313,
  kGspFirmwareVersion = 410,  // a text
  // Lists: the number of elements, then so many; a list of graphics clocks for each memory clock, kClocksPlaces apart.
  kMemoryClocksMhz = 500,
  kGraphicsClocksMhz = 1000,
  // Of the device and another one of the server, which has that place: its number there.
  kCommonAncestor = 3100,    // nvmlDeviceGetTopologyCommonAncestor
  kPeerStatusNvLink = 3200,  // nvmlDeviceGetP2PStatus of NVML_P2P_CAPS_INDEX_NVLINK
  kPeerStatusPci = 3300,     // and of NVML_P2P_CAPS_INDEX_PCI
  // nvmlDeviceGetTopologyNearestGpus, six of them: of level 0, 10, 20 ...; a bit for each device of the server.
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

inline constexpr uint32_t kMemoryClocksMax = 8;
inline constexpr uint32_t kGraphicsClocksMax = 255;
inline constexpr uint32_t kClocksPlaces = kGraphicsClocksMax + 1;
inline constexpr uint32_t kLinksMax = 18;           // of a device; NVML_NVLINK_MAX_LINKS
inline constexpr uint32_t kLinkStateField = 165;    // NVML_FI_DEV_NVLINK_GET_STATE; its scope is the link
inline constexpr uint32_t kTopologyLevelStep = 10;  // between two values of nvmlGpuTopologyLevel_t
inline constexpr uint32_t kTopologyLevels = 6;

// The reading that many places behind another of the same line of device_readings.def.
constexpr Reading operator+(Reading first, uint32_t places) {
  return static_cast<Reading>(static_cast<uint32_t>(first) + places);
}

struct ServerReport {
  // Bounds that Decode() enforces; Encode() leaves out uses beyond theirs.
  static constexpr size_t kReadingsMax = 4096;  // of one device; most of them clocks that it could run at
  static constexpr size_t kTextsMax = 32;
  static constexpr size_t kUsesMax = 512;  // or as many as there is room for

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
  // The answer to a ServerQuery::Field; `result` is NVML's, the rest counts when that is 0. Units as nvmlFieldValue_t.
  struct FieldValue {
    ServerQuery::Field field;
    uint32_t result = 0;
    uint32_t type = 0;
    uint64_t value = 0;  // the bytes of NVML's union
    int64_t time_us = 0;
    int64_t latency_us = 0;
    friend bool operator==(const FieldValue&, const FieldValue&) = default;
  };
  // The share of time in which a process used parts of a device, at its last sample.
  struct Load {
    uint64_t time_us = 0;  // of CLOCK_REALTIME at the server; 0: not known
    uint32_t sm_percent = 0;
    uint32_t memory_percent = 0;
    uint32_t encoder_percent = 0;
    uint32_t decoder_percent = 0;
    friend bool operator==(const Load&, const Load&) = default;
  };
  // One session's use of one device.
  struct Use {
    static constexpr uint64_t kUnknown = UINT64_MAX;
    uint32_t pid = 0;  // as that of its Session
    uint32_t device = 0;
    uint64_t used_bytes = kUnknown;
    Load load;             // with details alone
    uint64_t session = 0;  // whose it is
    friend bool operator==(const Use&, const Use&) = default;
  };
  // What sessions that are not shown use of one device, all together.
  struct Others {
    uint32_t device = 0;
    uint32_t sessions = 0;    // that have a context there
    uint64_t used_bytes = 0;  // of those of whom it is known
    friend bool operator==(const Others&, const Others&) = default;
  };

  // One session, whether or not it uses a device yet. A report shows those of the holder who asks; an administrator's shows all.
  struct Session {
    uint64_t session = 0;  // as logs call it
    uint32_t pid = 0;      // of the client process, in the server's pid namespace; of another host's, as it calls itself there
    uint64_t age_ms = 0;
    std::string program;  // what the client says that it is
    std::string vgpus;    // as ClientHello
    std::string user;     // a user's name on `host`: of the server's own host as that has it, else as the client's says
    std::string host;     // the server's, or the address that the connection comes from
    std::string name;     // its holder
    friend bool operator==(const Session&, const Session&) = default;
  };
  // Encode() leaves out those beyond, those whose texts pass the next bound, and those that do not fit into one message beside
  // the rest of the report. They count among `other_sessions`.
  static constexpr size_t kSessionsMax = 512;
  static constexpr size_t kSessionTextsMax = 64 * 1024;

  // What all sessions of one holder take of the server. A report shows the holder who asks; an administrator's shows all.
  struct Holder {
    std::string name;
    uint32_t sessions = 0;
    uint32_t starts_waiting = 0;
    uint32_t shared_objects = 0;
    uint32_t descriptors = 0;  // of these objects
    uint64_t host_memory_bytes = 0;

    static constexpr size_t kBytesMin = 4 + 4 * 4 + 8;
    void Put(Encoder& out) const;
    void Get(Decoder& in);
    friend bool operator==(const Holder&, const Holder&) = default;
  };
  static constexpr size_t kHoldersMax = 64;  // Encode() leaves out those beyond

  // How the time of one device is divided.
  struct Sharing {
    uint32_t device = 0;
    std::string policy;
    std::string mode;                // "free": nobody shares it; "armed": others rest; "metered": by tokens
    uint32_t unreported = 0;         // sessions that the audit found to use it without reporting it, in all
    uint32_t unreported_memory = 0;  // and those that were found to use more of its memory than they report

    static constexpr size_t kBytesMin = 5 * 4;
    void Put(Encoder& out) const;
    void Get(Decoder& in);
    friend bool operator==(const Sharing&, const Sharing&) = default;
  };
  static constexpr size_t kSharingsMax = 64;
  // One vGPU. Shares are parts of the device's time, 0 to 1.
  struct Vgpu {
    std::string name;
    uint32_t device = 0;
    double request = 0;
    double limit = 1;
    std::string priority;
    uint32_t sessions = 0;
    bool waits = false;      // for a token
    double got_1s = 0;       // in the last second; 0 while the device is not metered, which counts nothing
    double got_10s = 0;      // in the last ten
    uint64_t waited_ms = 0;  // for tokens, in all
    // From when the device came to be shared until what its sessions had queued there before was done, as far as is known: until
    // their drivers were first seen to have nothing to do. 0 while it is free, or when nothing was queued. Until it is over, how
    // long it has been so.
    uint64_t queued_before_ms = 0;
    bool queued_before_runs = false;  // it is not over
    uint64_t memory_limit_bytes = 0;  // of the device, of all its sessions; 0: none
    uint64_t memory_held_bytes = 0;
    MemoryByKind memory_held_by_kind{};  // together it, or less while programs take and give

    static constexpr size_t kBytesMin = 4 + 4 + 2 * 8 + 4 + 4 + 1 + 3 * 8 + 8 + 1 + 2 * 8 + 8 * kMemoryKinds;
    static constexpr double kShareMax = 1'000;
    void Put(Encoder& out) const;
    // Fails for shares that are no numbers, or beyond kShareMax.
    void Get(Decoder& in);
    friend bool operator==(const Vgpu&, const Vgpu&) = default;
  };
  static constexpr size_t kVgpusMax = 512;  // likewise

  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  std::string server;          // name and version of the server program: "tesserad 0.1.0"
  std::string driver;          // what it serves: "cuda", "emulator", or the path of a library
  std::string driver_release;  // of the GPU's kernel driver, "580.159.04"; empty: not known, or not asked for
  uint32_t sessions = 0;
  uint32_t sessions_max = 0;
  bool needs_vgpu = false;                   // a session that names no vGPU is refused
  std::vector<std::byte> snapshot;           // DeviceSnapshot of all devices the server has
  std::vector<std::vector<Value>> readings;  // one list per device of the snapshot; empty for devices not asked for
  std::vector<Text> texts;                   // of the device that was asked for details of
  std::vector<FieldValue> fields;            // as asked for, or each link's state (kLinks); none from a server without NVML
  std::vector<Use> uses;                     // of the sessions that have a context; empty when not asked for
  std::vector<Session> session_list;         // empty when nothing was asked for
  uint32_t other_sessions = 0;               // that are not shown; 0 when nothing was asked for
  std::vector<Others> others;                // of these; one for each device that they use
  std::vector<Holder> holders;               // empty when nothing was asked for
  std::vector<Sharing> sharings;             // empty from a server without vGPUs
  std::vector<Vgpu> vgpus;                   // these two only where nothing or the state was asked for
  // What one more session's context takes of each device's memory, by device of the snapshot; 0: not known. Empty: not measured.
  std::vector<uint64_t> context_bytes;
  // What is done about sessions that use a device without reporting it: "off", "log", "end", or "blind" where nobody can tell.
  std::string audit;
  std::string vgpu_problem;  // why the file of vGPUs is not in force as it stands; empty: it is
  // To kBegin alone: why no session of the asker can begin now, a sentence for people; empty: it can.
  std::string no_place;
  bool ending = false;  // it takes no more sessions, and ends with the last one

  void Encode(Encoder& out) const;
  // kProtocolViolation for what is no report. Of a report of another wire version only version and hash are filled in.
  static Result<ServerReport> Decode(std::span<const std::byte> message);

 private:
  void PutRest(Encoder& out) const;  // what follows `other_sessions`
};

}  // namespace tessera

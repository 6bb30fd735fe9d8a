// A question to a server that begins no session: what it is, what it serves, how its devices are. One datagram each way
// over a connection of its own (protocol/channel/query_server.h asks, server/daemon answers).
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
#include "protocol/wire/encoder.h"
#include "protocol/wire/handshake.h"

namespace tessera {

struct ServerQuery {
  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  bool readings = false;  // also ask for ServerReport::readings and ::uses, which takes the server some milliseconds

  void Encode(Encoder& out) const;
  // kProtocolViolation for what is no query. Of a query of another wire version `readings` is not filled in.
  static Result<ServerQuery> Decode(std::span<const std::byte> message);
};

// What can be read from a device while it works. The numbers are part of the protocol; a server leaves out what it
// cannot read. Units are those of NVML's functions (NVML API Reference), which tell the server most of it.
enum class Reading : uint32_t {
  kMemoryTotalBytes = 1,
  kMemoryUsedBytes = 2,  // by everybody, reserved memory not included
  kMemoryReservedBytes = 3,
  kGpuPercent = 10,  // share of the last sample period in which a kernel ran
  kMemoryPercent = 11,
  kPowerMilliwatts = 20,
  kPowerLimitMilliwatts = 21,          // as set by the administrator
  kEnforcedPowerLimitMilliwatts = 22,
  kEnergyMillijoules = 23,
  kTemperatureCelsius = 30,
  kFanPercent = 31,
  kPerformanceState = 32,
  kThrottleReasons = 33,
  kGraphicsClockMhz = 40,
  kSmClockMhz = 41,
  kMemoryClockMhz = 42,
  kVideoClockMhz = 43,
  kGraphicsClockMaxMhz = 44,
  kSmClockMaxMhz = 45,
  kMemoryClockMaxMhz = 46,
  kVideoClockMaxMhz = 47,
  kPersistenceMode = 50,
  kComputeMode = 51,
  kEccMode = 52,
  kEccModePending = 53,
  kPcieGeneration = 60,
  kPcieWidth = 61,
  kPcieGenerationMax = 62,
  kPcieWidthMax = 63,
  kMinorNumber = 70,
  kArchitecture = 71,
  kBrand = 72,
};

struct ServerReport {
  // Bounds that Decode() enforces; Encode() leaves out uses beyond theirs.
  static constexpr size_t kReadingsMax = 128;  // of one device; about 40 have a name
  static constexpr size_t kUsesMax = 512;

  struct Value {
    Reading reading{};
    uint64_t value = 0;
    friend bool operator==(const Value&, const Value&) = default;
  };
  // One session's use of one device.
  struct Use {
    static constexpr uint64_t kUnknown = UINT64_MAX;
    uint32_t pid = 0;  // of the client process, in the server's pid namespace
    uint32_t device = 0;
    uint64_t used_bytes = kUnknown;
    friend bool operator==(const Use&, const Use&) = default;
  };

  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  std::string server;         // name and version of the server program: "tesserad 0.1.0"
  std::string driver;         // what it serves: "cuda", "emulator", or the path of a library
  std::string driver_release; // of the GPU's kernel driver, "580.159.04"; empty: not known, or not asked for
  uint32_t sessions = 0;
  uint32_t sessions_max = 0;
  std::vector<std::byte> snapshot;           // DeviceSnapshot of all devices the server has
  std::vector<std::vector<Value>> readings;  // one list per device of the snapshot; empty when not asked for
  std::vector<Use> uses;                     // of the sessions that have a context; empty when not asked for

  void Encode(Encoder& out) const;
  // kProtocolViolation for what is no report. Of a report of another wire version only version and hash are filled in.
  static Result<ServerReport> Decode(std::span<const std::byte> message);
};

}  // namespace tessera

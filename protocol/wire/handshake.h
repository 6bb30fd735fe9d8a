// The messages on the socket of a channel: the handshake that begins a session, segments that are offered later, and the goodbye
// that ends it. Each message is one datagram of the SEQPACKET socket: magic, kind, fields. Plain structs; one thread at a time.
// Decode() copies everything out of the bytes that it reads, and returns kProtocolViolation for a malformed message.
//
//   client                       server
//   ClientHello            ->
//                          <-    ServerWelcome + descriptors of its segments; or ServerRefusal, then the end
//   SegmentOffer + fd     <->    at any time
//   SegmentClose, Goodbye <->    at any time
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/status.h"
#include "protocol/wire/control_message.h"
#include "protocol/wire/encoder.h"

namespace tessera {

// Increment it with every change of what both ends have to agree on besides the spec (rings, headers, handshake).
inline constexpr uint32_t kWireVersion = 8;
// Bounds of single fields; control_message.h bounds a whole message.
inline constexpr size_t kSnapshotBytesMax = 128 * 1024;        // 8 devices of about 200 attributes, names and limits: 16 KiB
inline constexpr size_t kEnvironmentEntriesMax = 64;           // the driver variables on the list: about 20
inline constexpr size_t kEnvironmentEntryBytesMax = 4 * 1024;  // a path in CUDA_CACHE_PATH
inline constexpr size_t kEnvironmentBytesMax = 32 * 1024;
inline constexpr size_t kDeviceListBytesMax = 1024;       // 8 UUIDs of 41 bytes
inline constexpr size_t kVgpuListBytesMax = 1024;         // 16 names of 63 bytes
inline constexpr size_t kHelloTicketBytesMax = 4 * 1024;  // protocol/ticket
inline constexpr size_t kNameBytesMax = 256;              // program names, versions
inline constexpr size_t kUserBytesMax = 64;               // names of users
inline constexpr size_t kHostBytesMax = 256;              // names and addresses of hosts
inline constexpr size_t kSentenceBytesMax = 1024;
inline constexpr size_t kWelcomeSegmentsMax = 4;  // rings and staging today

// Sizes of the parts of a channel in bytes. The server rounds and limits what the client asks for (protocol/channel/channel.h).
struct ChannelSizes {
  uint32_t command_bytes = 4u << 20;
  uint32_t reply_bytes = 1u << 20;
  uint32_t answer_bytes = 64u << 10;
  uint32_t transfer_bytes = 64u << 10;  // in each direction
  uint64_t staging_bytes = 64u << 20;
  friend bool operator==(const ChannelSizes&, const ChannelSizes&) = default;
};

// The purpose of a segment. The numbers are part of the protocol.
enum class SegmentKind : uint32_t {
  kNone = 0,
  kRings = 1,
  kStaging = 2,
  kHostMemory = 3,  // pinned memory, at the same address on both sides
  kSharedFile = 4,  // the application's own file mapping (cuMemHostRegister of shared memory); not sealed
  kManaged = 5,     // the client's side of managed memory
};

// Offers a segment of shared memory to the other side. Travels with exactly one descriptor.
struct SegmentOffer {
  uint32_t id = 0;  // odd: made by the server; even: by the client. Never 0, never reused in a session
  SegmentKind kind = SegmentKind::kNone;
  uint64_t size_bytes = 0;
  uint64_t address = 0;      // where the other side has to map it; 0: anywhere
  uint64_t file_offset = 0;  // page aligned; 0 unless kSharedFile

  void Encode(Encoder& out) const;
  static Result<SegmentOffer> Decode(std::span<const std::byte> message);
};

// Tells that the sender has unmapped the segment and will not refer to it again. The receiver unmaps it when it no longer uses
// it.
struct SegmentClose {
  uint32_t id = 0;

  void Encode(Encoder& out) const;
  static Result<SegmentClose> Decode(std::span<const std::byte> message);
};

// Ends the session in order. kOk: there was no error.
struct Goodbye {
  StatusCode code = StatusCode::kOk;
  std::string sentence;

  void Encode(Encoder& out) const;
  static Result<Goodbye> Decode(std::span<const std::byte> message);
};

// Asks for a session.
struct ClientHello {
  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;      // of the API spec (generated)
  uint32_t pid = 0;            // in the client's own pid namespace, for logs; `holder` tells who it is
  uint32_t session_index = 0;  // number of the session in the client: part of its handles, selects its part of the windows
  uint64_t window_rows = 0;    // bit i: the client could reserve row i of kWindowTable (protocol/memory/window_table.h)
  bool mirrored = false;       // a link on the way sets it: the two ends share no pages
  ChannelSizes sizes;
  std::string program;                   // name of the client program, for logs
  std::string devices;                   // list of devices that it wants; empty: all that it may have
  std::vector<std::string> environment;  // "name=value" of driver variables, to be set before the driver is loaded
  std::string vgpus;                     // "NAME" or "NAME+NAME", as the user typed it; empty: none
  std::vector<std::byte> ticket;         // the placer's (protocol/ticket); names the vGPUs instead of `vgpus`; empty: none
  std::string holder;                    // see holder.h; empty from clients, a link on the way sets it
  std::string user;                      // likewise: the name of `pid`'s user on the client's host; for people
  std::string host;                      // likewise: the client's address, as the server's host sees it; for people
  // How long the client waits for a place if the server is full. The server has its own limits (tesserad --start-wait).
  static constexpr uint32_t kWaitAsServer = UINT32_MAX;
  uint32_t wait_ms = kWaitAsServer;

  void Encode(Encoder& out) const;
  // kProtocolViolation: it is no hello. For a hello of another wire version it fills in only `wire_version` and `spec_hash`,
  // whose place never changes: call CheckPeerVersion() before you use anything else.
  static Result<ClientHello> Decode(std::span<const std::byte> message);
};

// Accepts a session. Decode() treats other wire versions as that of ClientHello does.
struct ServerWelcome {
  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  uint64_t session_id = 0;             // for logs on both sides
  uint32_t session_index = 0;          // the one of the hello
  uint32_t window_row = 0;             // one of the rows that the client offered
  bool mirrored = false;               // as in the hello: each end has to publish the ranges that it wrote
  ChannelSizes sizes;                  // the sizes that the server made
  std::string server;                  // name and version of the server program, for logs
  std::vector<SegmentOffer> segments;  // each has a descriptor in this datagram, in this order
  std::vector<std::byte> snapshot;     // DeviceSnapshot of the session's devices

  void Encode(Encoder& out) const;
  static Result<ServerWelcome> Decode(std::span<const std::byte> message);
};

// Refuses a session or a question.
struct ServerRefusal {
  StatusCode code = StatusCode::kInternal;
  std::string sentence;  // for people: what happened, and what to do next

  void Encode(Encoder& out) const;
  static Result<ServerRefusal> Decode(std::span<const std::byte> message);
};

// Ok: the peer speaks our wire version and was built from our spec. Otherwise kVersionMismatch, with a sentence that names both
// versions and what to do. `peer` is "client" or "server". Any thread.
Status CheckPeerVersion(std::string_view peer, uint32_t peer_version, uint64_t peer_hash, uint64_t own_hash);

}  // namespace tessera

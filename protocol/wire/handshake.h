// The messages that go over the socket of a channel: the handshake that begins a session, segments offered later, and the
// good-bye that ends it. One message is one datagram of the SEQPACKET socket: magic, kind, fields. Plain structs, used by
// one thread; Decode() copies everything out of the bytes it reads.
//
//   client                       server
//   ClientHello            ->
//                          <-    ServerWelcome + descriptors of its segments, or ServerRefusal and the end
//   SegmentOffer + fd     <->    any time
//   SegmentClose, Goodbye <->    any time
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

// Changes with every change of what two ends must agree on besides the spec (rings, headers, handshake).
inline constexpr uint32_t kWireVersion = 8;
// Bounds, beside that of a whole message (control_message.h).
inline constexpr size_t kSnapshotBytesMax = 128 * 1024;        // 8 devices of about 200 attributes, names and limits: 16 KiB
inline constexpr size_t kEnvironmentEntriesMax = 64;           // the listed driver variables: about 20
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

// Bytes of the parts of a channel; the server rounds and bounds what it is asked for (protocol/channel/channel.h).
struct ChannelSizes {
  uint32_t command_bytes = 4u << 20;
  uint32_t reply_bytes = 1u << 20;
  uint32_t answer_bytes = 64u << 10;
  uint32_t transfer_bytes = 64u << 10;  // each way
  uint64_t staging_bytes = 64u << 20;
  friend bool operator==(const ChannelSizes&, const ChannelSizes&) = default;
};

// What a segment is for. The numbers are part of the protocol.
enum class SegmentKind : uint32_t {
  kNone = 0,
  kRings = 1,
  kStaging = 2,
  kHostMemory = 3,  // pinned memory; at the same address on both sides
  kSharedFile = 4,  // a file mapping of the application's own (cuMemHostRegister of shared memory); not sealed
  kManaged = 5,     // the client's side of managed memory
};

// Travels with exactly one descriptor.
struct SegmentOffer {
  uint32_t id = 0;  // odd: made by the server; even: by the client; never 0, never reused in a session
  SegmentKind kind = SegmentKind::kNone;
  uint64_t size_bytes = 0;
  uint64_t address = 0;      // where the other side must map it; 0: anywhere
  uint64_t file_offset = 0;  // page aligned; 0 unless kSharedFile

  void Encode(Encoder& out) const;
  static Result<SegmentOffer> Decode(std::span<const std::byte> message);
};

// The sender has unmapped the segment and will not refer to it again. The receiver unmaps when it has stopped using it.
struct SegmentClose {
  uint32_t id = 0;

  void Encode(Encoder& out) const;
  static Result<SegmentClose> Decode(std::span<const std::byte> message);
};

// Ends the session in order. kOk: nothing was wrong.
struct Goodbye {
  StatusCode code = StatusCode::kOk;
  std::string sentence;

  void Encode(Encoder& out) const;
  static Result<Goodbye> Decode(std::span<const std::byte> message);
};

struct ClientHello {
  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;      // of the API spec (generated)
  uint32_t pid = 0;            // in the client's own pid namespace, for logs; who it is says `holder`
  uint32_t session_index = 0;  // which of its sessions this is: in its handles, and which part of the windows it uses
  uint64_t window_rows = 0;    // bit i: the client could reserve row i of kWindowTable (protocol/memory/window_table.h)
  bool mirrored = false;       // set by a link on the way: the two ends share no pages
  ChannelSizes sizes;
  std::string program;                   // name of the client program, for logs
  std::string devices;                   // list of devices it wants; empty: all it may have
  std::vector<std::string> environment;  // "name=value" of driver variables to be set before the driver is loaded
  std::string vgpus;                     // "NAME" or "NAME+NAME", as the user says; empty: none
  std::vector<std::byte> ticket;         // of the placer (protocol/ticket), which says the vGPUs instead; empty: none
  std::string holder;                    // holder.h; empty from clients, set by a link on the way
  std::string user;                      // likewise: a name for `pid`'s user, as the other host has it; for people
  std::string host;                      // likewise: where the client is, as the server's host sees it; for people
  // How long it wants to wait for a place where the server is full; the server has bounds of its own (tesserad --start-wait).
  static constexpr uint32_t kWaitAsServer = UINT32_MAX;
  uint32_t wait_ms = kWaitAsServer;

  void Encode(Encoder& out) const;
  // kProtocolViolation for what is no hello. Of a hello of another wire version only `wire_version` and `spec_hash` are
  // filled in (their place never changes): check with CheckPeerVersion() before anything else is used.
  static Result<ClientHello> Decode(std::span<const std::byte> message);
};

struct ServerWelcome {
  uint32_t wire_version = kWireVersion;
  uint64_t spec_hash = 0;
  uint64_t session_id = 0;             // for logs on both sides
  uint32_t session_index = 0;          // as the client asked
  uint32_t window_row = 0;             // one of the rows that the client offered
  bool mirrored = false;               // as the hello said: written ranges must be published
  ChannelSizes sizes;                  // what was made
  std::string server;                  // name and version of the server program, for logs
  std::vector<SegmentOffer> segments;  // each with a descriptor of this datagram, in this order
  std::vector<std::byte> snapshot;     // what is known of the devices (client-stub/ and server/worker/ know its layout)

  void Encode(Encoder& out) const;
  static Result<ServerWelcome> Decode(std::span<const std::byte> message);
};

struct ServerRefusal {
  StatusCode code = StatusCode::kInternal;
  std::string sentence;  // for people: what happened, what to do next

  void Encode(Encoder& out) const;
  static Result<ServerRefusal> Decode(std::span<const std::byte> message);
};

// Ok when the peer speaks our wire version and was built from our spec; else kVersionMismatch with a sentence that names
// both versions and what to do. `peer` is "client" or "server".
Status CheckPeerVersion(std::string_view peer, uint32_t peer_version, uint64_t peer_hash, uint64_t own_hash);

}  // namespace tessera

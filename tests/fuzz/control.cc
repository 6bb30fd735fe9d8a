// What comes over sockets before and beside the rings: handshake, segments, questions and their answers, snapshots.
// Input: u8 which message, then its bytes.
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "protocol/wire/device_snapshot.h"
#include "protocol/wire/handshake.h"
#include "protocol/wire/server_query.h"
#include "tests/fuzz/round_trip.h"

namespace tessera::fuzz {
namespace {

// Of another version a message keeps two fields alone: it is not what was read.
template <typename Message>
bool OfOurVersion(const Message& message) {
  if constexpr (requires { message.wire_version; }) return message.wire_version == kWireVersion;
  return true;
}

// What was accepted means the same when it is sent on.
template <typename Message>
void Check(std::span<const std::byte> bytes) {
  (void)ControlKindOf(bytes);
  Result<Message> message = Message::Decode(bytes);
  if (message.ok() && OfOurVersion(*message)) CheckSentOn(*message);
}

constexpr Checker kCheckers[] = {Check<ClientHello>,  Check<ServerWelcome>, Check<ServerRefusal>,
                                 Check<SegmentOffer>, Check<SegmentClose>,  Check<Goodbye>,
                                 Check<ServerQuery>,  Check<ServerReport>,  Check<DeviceSnapshot>};

DeviceSnapshot Snapshot() {
  DeviceSnapshot snapshot;
  snapshot.driver_version = 13000;
  snapshot.selection = "0,1";
  snapshot.devices.resize(2);
  for (DeviceSnapshot::Device& device : snapshot.devices) {
    device.name = "a device";
    device.pci_bus_id = "0000:02:00.0";
    device.total_bytes = uint64_t{1} << 36;
    device.attributes.resize(20, {0, 7});
  }
  snapshot.p2p_attributes = 2;
  snapshot.p2p.resize(2 * 2 * 2);
  return snapshot;
}

}  // namespace

void Run(std::span<const std::byte> input) { RunOneOf(kCheckers, input); }

std::vector<Input> Seeds() {
  ClientHello hello;
  hello.program = "program";
  hello.devices = "GPU-0,GPU-1";
  hello.environment = {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_MODULE_LOADING=LAZY"};
  hello.holder = "name:laptop";
  hello.user = "alice";
  ServerWelcome welcome;
  welcome.server = "tesserad";
  welcome.segments = {{1, SegmentKind::kRings, 4096, 0, 0}, {3, SegmentKind::kStaging, 1 << 20, 0, 0}};
  welcome.snapshot = Encoded(Snapshot());
  ServerReport report;
  report.server = "tesserad";
  report.driver = "cuda";
  report.snapshot = Encoded(Snapshot());
  report.readings = {{{Reading::kMemoryTotalBytes, 1}, {Reading::kGpuPercent, 50}}, {}};
  report.uses = {{17, 0, 4096, {}, 3}};
  report.session_list = {{3, 17, 1000, "program", "train", "alice", "gpu7", "uid:1000"}};
  report.others = {{0, 2, 4096}};
  report.holders = {{"uid:1000", 1, 2, 3, 4, 5}};
  const Input messages[] = {
      Encoded(hello),
      Encoded(welcome),
      Encoded(ServerRefusal{StatusCode::kUnavailable, "the server is ending"}),
      Encoded(SegmentOffer{2, SegmentKind::kHostMemory, 1 << 20, 0x300000000000, 0}),
      Encoded(SegmentClose{2}),
      Encoded(Goodbye{StatusCode::kProtocolViolation, "a sentence"}),
      Encoded(ServerQuery{kWireVersion, 42, ServerQuery::Ask::kFields, 1, {{17, 0}, {204, 1}}, "train", {std::byte{5}}, "uid:7"}),
      Encoded(report),
      Encoded(Snapshot())};
  static_assert(std::size(messages) == std::size(kCheckers));
  return SeedsOf(messages);
}

}  // namespace tessera::fuzz

// A worker and a hostile client: records over a real channel, executed by the real handlers against a driver that does
// nothing and succeeds. Some handles of every kind are live. Input: records: u16 call id, u8 flags, u8 context, u16
// bytes, the message.
#include <cstdio>
#include <map>
#include <string>

#include "generated/mock/recording_table.h"
#include "generated/server/dispatch.h"
#include "server/worker/object_table.h"
#include "tests/fuzz/target.h"
#include "tests/protocol/spec/message_check.h"
#include "tests/server/worker/test_client.h"

namespace tessera::fuzz {
namespace {

constexpr int kRecordsMax = 32;
constexpr uint32_t kKinds = 26;
constexpr uint32_t kLiveOfKind = 2;
constexpr uint32_t kIdsMax = 0x10000;

HandleId Live(uint32_t kind, uint32_t number) { return HandleId::Of(0, static_cast<HandleKind>(kind), 1, number); }

std::vector<HandleId> LiveHandles() {
  std::vector<HandleId> handles{HandleId()};
  for (uint32_t kind = 1; kind <= kKinds; ++kind) {
    for (uint32_t number = 1; number <= kLiveOfKind; ++number) handles.push_back(Live(kind, number));
  }
  return handles;
}

// Outputs are those of a machine with one device that can do everything; what it is asked to place is placed there.
const DriverTable& TheDriver() {
  static const DriverTable driver = [] {
    DriverTable table = MakeRecordingTable([](int) { return CUDA_SUCCESS; });
    table.cuDeviceGetCount = [](int* count) { return *count = 1, CUDA_SUCCESS; };
    table.cuDeviceGetAttribute = [](int* value, CUdevice_attribute, CUdevice) { return *value = 1, CUDA_SUCCESS; };
    table.cuMemGetAllocationGranularity = [](size_t* granularity, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
      return *granularity = 2 << 20, CUDA_SUCCESS;
    };
    table.cuMemAddressReserve = [](CUdeviceptr* reserved, size_t, size_t, CUdeviceptr address, unsigned long long) {
      return *reserved = address, CUDA_SUCCESS;
    };
    table.cuCtxGetDevice = [](CUdevice* device) { return *device = 0, CUDA_SUCCESS; };
    return table;
  }();
  return driver;
}

}  // namespace

void Run(std::span<const std::byte> input) {
  WorkerOptions options;
  options.windows = SessionWindows(kSanitizedRow, 0);
  options.reply_wait_ns = 20'000'000;
  ChannelSizes sizes;
  sizes.command_bytes = 256 << 10;
  sizes.reply_bytes = 256 << 10;
  sizes.staging_bytes = kStagingBytesMin;
  TestClient client(TheDriver(), sizes, options);
  for (const HandleId handle : LiveHandles()) {
    if (handle != HandleId()) client.worker().objects().Insert(handle, handle.value() + 0x1000);
  }
  Reader reader(input);
  for (int i = 0; i < kRecordsMax && !reader.empty(); ++i) {
    const auto call = reader.Take<uint16_t>();
    const auto flags = reader.Take<uint8_t>();
    const auto context = reader.Take<uint8_t>();
    const auto message = reader.Bytes(reader.Take<uint16_t>());
    const HandleId current = context == 0 ? HandleId() : Live(1, context);
    client.Send(call, flags & kRecordFlags, 1 + (flags >> 6), current, message);
  }
}

std::vector<Input> Seeds() {
  std::map<std::string, uint32_t> ids;
  for (uint32_t id = 0; id < kIdsMax; ++id) ids.emplace(std::string(CallName(id)) + "Request", id);
  std::vector<Input> seeds;
  uint32_t number = 0;
  for (const TestedMessage& message : AllMessages()) {
    const auto found = ids.find(message.name);
    if (found == ids.end()) continue;
    Writer out;
    // The same call with several choices of handles.
    for (int i = 0; i < kRecordsMax / 2; ++i) {
      ValueSource source(++number, LiveHandles());
      Encoder encoder;
      message.encode(source, encoder);
      out.Put(static_cast<uint16_t>(found->second))
          .Put(uint8_t{1})
          .Put(static_cast<uint8_t>(i % 3))
          .Put(static_cast<uint16_t>(encoder.size()))
          .Bytes(encoder.bytes());
    }
    seeds.push_back(out.input());
  }
  return seeds;
}

}  // namespace tessera::fuzz

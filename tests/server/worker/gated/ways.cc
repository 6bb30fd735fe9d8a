#include "tests/server/worker/gated/ways.h"

#include <cuda.h>

#include <map>
#include <utility>

#include "generated/server/dispatch.h"
#include "protocol/memory/copy_route.h"
#include "protocol/wire/graph_params.h"
#include "tests/server/worker/gated/places.h"

namespace tessera {
namespace {

constexpr bool kWaits = true;
constexpr bool kPasses = false;

struct Ends {
  uint64_t from = DeviceMemory();
  uint64_t to = OtherDeviceMemory();
  bool from_array = false;
  bool to_array = false;
};

// In the record for bytes in a row and in that for a box at once.
void GiveCopy(Arguments& given, CopyRoute route, const Ends& ends) {
  given.Give("route", route);
  given.Give("src", ends.from);
  given.Give("dst", ends.to);
  given.GiveList("data", std::vector<std::byte>(route == CopyRoute::kInline ? kBytes : 0));
  CUDA_MEMCPY3D box{};
  box.WidthInBytes = kBytes;
  box.Height = box.Depth = box.srcHeight = box.dstHeight = 1;
  box.srcPitch = box.dstPitch = kBytes;
  box.srcDevice = ends.from_array || route == CopyRoute::kInline ? 0 : ends.from;
  box.dstDevice = ends.to_array ? 0 : ends.to;
  given.Give("shape", box);
  if (!ends.from_array) given.GiveHandle("src_array", HandleId());
  if (!ends.to_array) given.GiveHandle("dst_array", HandleId());
}

// A copy with both ends on devices is work of the GPU as a kernel is. Others overlap it.
std::vector<Way> WaysOfCopies(const Arguments& fields) {
  const auto copy = [](CopyRoute route, const Ends& ends) {
    return [=](Arguments& given, uint64_t) { GiveCopy(given, route, ends); };
  };
  const uint64_t device = DeviceMemory();
  const uint64_t mirrored = MirroredMemory();
  std::vector<Way> ways = {
      {"from device to device", kWaits, copy(CopyRoute::kDirect, {})},
      {"from device to pinned memory", kPasses,
       [=](Arguments& given, uint64_t pinned) {
         GiveCopy(given, CopyRoute::kDirect, {device, pinned});
       }},
      {"from pinned memory to device", kPasses,
       [=](Arguments& given, uint64_t pinned) {
         GiveCopy(given, CopyRoute::kDirect, {pinned, device});
       }},
      {"from device to mirrored memory", kPasses, copy(CopyRoute::kDirect, {device, mirrored})},
      {"from mirrored memory to device", kPasses, copy(CopyRoute::kDirect, {mirrored, device})},
  };
  if (fields.Has("route")) {
    ways.push_back({"from the record", kPasses, copy(CopyRoute::kInline, {})});
    ways.push_back({"from staging", kPasses, copy(CopyRoute::kFromStaging, {0, device})});
    ways.push_back({"to staging", kPasses, copy(CopyRoute::kToStaging, {device, 0})});
  }
  if (fields.Has("src_array")) {
    ways.push_back({"from array to device", kWaits, copy(CopyRoute::kDirect, {0, device, true, false})});
    ways.push_back({"from device to array", kWaits, copy(CopyRoute::kDirect, {device, 0, false, true})});
    ways.push_back({"from array to array", kWaits, copy(CopyRoute::kDirect, {0, 0, true, true})});
    ways.push_back({"from array to staging", kPasses, copy(CopyRoute::kToStaging, {0, 0, true, false})});
    ways.push_back({"from the record to array", kPasses, copy(CopyRoute::kInline, {0, 0, false, true})});
    ways.push_back({"from array to mirrored memory", kPasses, copy(CopyRoute::kDirect, {0, mirrored, true, false})});
  }
  return ways;
}

// Calls whose fields are nobody else's.
const std::multimap<std::string_view, Way>& Stated() {
  static const std::multimap<std::string_view, Way> stated = [] {
    std::multimap<std::string_view, Way> ways;
    const auto passes = [&](std::string_view call, const std::function<void(Arguments&)>& give) {
      ways.emplace(call, Way{"as it is", kPasses, [give](Arguments& given, uint64_t) { give(given); }});
    };
    const auto one_operation = [](Arguments& given) {
      given.Give("count", 1);
      given.Give("paramArray", CUstreamBatchMemOpParams{});
    };
    passes("cuStreamBatchMemOp", one_operation);
    passes("cuStreamBatchMemOp_v2", one_operation);
    const auto attribute = [](Arguments& given) {
      given.Give("attr", CU_LAUNCH_ATTRIBUTE_PRIORITY);
      given.Give("param", CUstreamAttrValue{});
    };
    passes("cuStreamGetAttribute", attribute);
    passes("cuStreamSetAttribute", attribute);
    // What the driver placed by itself.
    passes("cuMemFreeAsync", [](Arguments& given) { given.Give("dptr", 0x10000); });
    passes("cuMemCreate", [](Arguments& given) {
      CUmemAllocationProp properties{};
      properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      given.Give("prop", properties);
    });
    passes("cuMemMapArrayAsync", [](Arguments& given) {
      given.Give("maps", CUarrayMapInfo{});
      given.Give("resources", Arguments::Live(HandleKind::kArray).value());
      given.Give("allocations", Arguments::Live(HandleKind::kMemoryAllocation).value());
    });
    passes("tesseraCaptureHostCopy", [](Arguments& given) {
      HostCopyNodeRecord copy{};
      copy.function = 1;
      copy.source_is_client_s = copy.destination_is_client_s = 1;
      given.Give("params", copy);
    });
    // Without the flag it is a question of the host alone.
    ways.emplace("cuGraphInstantiateWithParams", Way{"without upload", kPasses});
    ways.emplace("cuGraphInstantiateWithParams", Way{"with upload", kWaits, [](Arguments& given, uint64_t) {
                                                       given.Give("flags", CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD);
                                                     }});
    // Its other end is always memory of the host.
    ways.emplace("tesseraDeliver", Way{"to the client", kPasses, [](Arguments&, uint64_t) {}, true});
    return ways;
  }();
  return stated;
}

}  // namespace

std::vector<Way> WaysOf(const GatedCall& call) {
  std::vector<Way> ways;
  const auto [begin, end] = Stated().equal_range(call.name);
  for (auto stated = begin; stated != end; ++stated) ways.push_back(stated->second);
  if (!ways.empty()) return ways;
  Arguments fields;
  Encoder nowhere;
  call.encode(fields, nowhere);
  switch (GateKindOf(call.id)) {
    case GateKind::kCopy: return WaysOfCopies(fields);
    case GateKind::kLaunch:
    case GateKind::kGraph:
    case GateKind::kSet: return {{"as it is", kWaits}};
    case GateKind::kMemory:
    case GateKind::kOrder:
    case GateKind::kNone: return {{"as it is", kPasses}};
  }
  return {};
}

std::vector<std::string_view> StatedCalls() {
  std::vector<std::string_view> calls;
  for (const auto& [call, way] : Stated()) calls.push_back(call);
  return calls;
}

}  // namespace tessera

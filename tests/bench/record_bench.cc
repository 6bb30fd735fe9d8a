// What a record costs the executor of a worker, in instructions: tests/bench/quota runs it under callgrind and counts between
// CountedBegin() and CountedEnd(), on the thread that calls both.
//
//   record_bench none|free|armed        # the gate: no broker, a broker and nothing shared, another vGPU there
//
// The records are launches, between two of which nothing is waited for: all of them are in the ring before the first one ends.
// The driver does nothing, so that the worker's own instructions are all there are.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "generated/messages/launch.h"
#include "protocol/base/check.h"
#include "protocol/base/unique_fd.h"
#include "protocol/wire/encoder.h"
#include "server/worker/object_table.h"
#include "tests/bench/counted.h"
#include "tests/server/worker/fake_driver.h"
#include "tests/server/worker/one_gpu.h"
#include "tests/server/worker/test_client.h"

namespace tessera {
namespace {

constexpr int kRecords = 1000;
constexpr int kBefore = 200;  // what is done for the first time is done
constexpr int kParameters = 3;

std::atomic<bool> g_all_there{false};
int g_launches = 0;  // the executor's

CUresult Launch(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**) {
  while (!g_all_there.load(std::memory_order_acquire)) usleep(100);
  ++g_launches;
  if (g_launches == kBefore) CountedBegin();
  if (g_launches == kBefore + kRecords) CountedEnd();
  return CUDA_SUCCESS;
}

DriverTable WithLaunches(DriverTable table) {
  AddOneGpu(table);
  table.cuKernelGetParamInfo = [](CUkernel, size_t, size_t*, size_t*) { return CUDA_ERROR_INVALID_VALUE; };
  table.cuFuncGetParamInfo = [](CUfunction, size_t index, size_t* offset, size_t* size) {
    if (index >= kParameters) return CUDA_ERROR_INVALID_VALUE;
    *offset = index * sizeof(uint64_t);
    *size = sizeof(uint64_t);
    return CUDA_SUCCESS;
  };
  table.cuFuncGetAttribute = [](int* value, CUfunction_attribute, CUfunction) {
    *value = 0;
    return CUDA_SUCCESS;
  };
  table.cuLaunchKernel = Launch;
  return table;
}

HandleId Insert(TestClient& client, HandleKind kind, uint32_t slot, void* object) {
  const HandleId id = HandleId::Of(0, kind, 1, slot);
  CHECK(client.worker().objects().Insert(id, reinterpret_cast<uint64_t>(object)));
  return id;
}

int Main(std::string_view way) {
  const UniqueFd event(eventfd(0, EFD_NONBLOCK));
  GatePage page{};
  ReportPage report{};
  page.row_count = 1;
  page.alive_ns = UINT64_MAX;
  std::memset(page.rows[0].uuid, kOneGpuUuid, sizeof(page.rows[0].uuid));
  if (way == "armed") {
    page.rows[0].gate = GateWord{.mode = GateMode::kArmed}.Pack();
    page.closed_rows = 1;
  }
  WorkerOptions options;
  if (way != "none") options.gate = {&page, &report, event.get()};

  FakeDriver driver;
  const DriverTable table = WithLaunches(driver.table());
  const CUcontext context = driver.NewContext();
  const CUstream stream = driver.NewStream(context);
  TestClient client(table, ChannelSizes{}, options);
  const HandleId context_id = Insert(client, HandleKind::kContext, 1, context);
  cuLaunchKernelRequest request;
  request.function = Insert(client, HandleKind::kFunction, 2, &client);
  request.stream = Insert(client, HandleKind::kStream, 3, stream);
  request.grid_x = request.grid_y = request.grid_z = request.block_x = request.block_y = request.block_z = 1;
  const std::vector<std::byte> parameters(kParameters * sizeof(uint64_t));
  request.parameters = parameters;
  Encoder encoder;
  request.Encode(encoder);
  for (int i = 0; i < kBefore + kRecords; ++i) client.Send(cuLaunchKernelRequest::kId, 0, 1, context_id, encoder.bytes());
  g_all_there.store(true, std::memory_order_release);
  client.Send(cuLaunchKernelRequest::kId, kWantsReply, 1, context_id, encoder.bytes());
  const std::optional<TestReply> reply = client.Next();
  CHECK(reply.has_value() && reply->header.result == CUDA_SUCCESS && g_launches == kBefore + kRecords + 1);
  std::printf("%d\n", kRecords);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string_view way = argc == 2 ? argv[1] : "";
  if (way == "none" || way == "free" || way == "armed") return tessera::Main(way);
  std::fprintf(stderr, "usage: record_bench none|free|armed\n");
  return 2;
}

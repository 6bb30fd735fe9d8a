// How many grants a placer makes durable in a second, and how long each takes, with nodes that answer at once.
//
//   placer_bench FILE [--rate N] [--seconds S]      N grants asked for in a second (1000), for S seconds (5); FILE: of the store
//
// First what one transaction of the same store takes alone, synchronised: that is the disk. Then the grants: from the request
// until the job is told, at the stated rate, whether or not those before are done. A line of JSON: {"disk_p99_us", "p50_us",
// "p99_us", "ratio", "granted_per_s", "grants_per_write"}.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "netaware/service/placer_loop.h"
#include "netaware/store/sqlite_store.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

constexpr int kServers = 64, kGpus = 8;

double Us(Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

double Quantile(std::vector<double> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(part * static_cast<double>(values.size())))];
}

// Does what it is told, at once.
class ReadyNode : public NodeEnd {
 public:
  ReadyNode(PlacerLoop& loop, std::string server) : loop_(loop), server_(std::move(server)) {}
  void Send(const PlacerOrder& order) override {
    loop_.Post([this, number = order.number](PlacerCore& core, int64_t now_ms) { core.Answered(server_, number, true, now_ms); });
  }
  void SendClock(int64_t) override {
    loop_.Post([this](PlacerCore& core, int64_t now_ms) {
      loop_.Heard(server_, now_ms);
      core.Beat(server_, {.others = std::vector<GpuAmount>(kGpus)}, now_ms);
    });
  }
  void EndSilent() override {}

 private:
  PlacerLoop& loop_;
  const std::string server_;
};

struct Times {
  std::mutex mutex;
  std::vector<double> us;
  std::atomic<int> granted = 0;
};

class TimedJob : public JobEnd {
 public:
  TimedJob(PlacerLoop& loop, Times& times, Clock::time_point asked) : loop_(loop), times_(times), asked_(asked) {}
  void Tell(const GrantView& view) override {
    if (view.state != Grant::State::kGranted) return;
    {
      std::lock_guard lock(times_.mutex);
      times_.us.push_back(Us(Clock::now() - asked_));
    }
    ++times_.granted;
    loop_.Post([id = view.grant.ask.id](PlacerCore& core, int64_t) { (void)core.Release(id); });
  }

 private:
  PlacerLoop& loop_;
  Times& times_;
  const Clock::time_point asked_;
};

std::string UuidOfGpu(int server, int gpu) {
  char text[64];
  std::snprintf(text, sizeof(text), "GPU-%08x-0000-0000-0000-%012x", server, gpu);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: placer_bench FILE [--rate N] [--seconds S]\n");
    return 2;
  }
  int rate = 1'000, seconds = 5;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rate") == 0) rate = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atoi(argv[i + 1]);
  }
  Result<std::unique_ptr<Store>> store = OpenSqliteStore(argv[1]);
  if (!store.ok()) {
    std::fprintf(stderr, "placer_bench: %s\n", store.status().message().c_str());
    return 1;
  }
  std::vector<double> disk;
  for (int i = 0; i < 500; ++i) {
    const StoreTransaction one{.changes = {{"disk", std::string(400, static_cast<char>('a' + i % 26))}}};
    const Clock::time_point begin = Clock::now();
    (void)(*store)->Commit({&one, 1});
    disk.push_back(Us(Clock::now() - begin));
  }
  Result<TicketSigner> signer = TicketSigner::Make();
  Times times;
  Result<std::unique_ptr<PlacerLoop>> made = PlacerLoop::Start({}, std::move(*signer), **store);
  PlacerLoop& loop = **made;
  std::vector<std::shared_ptr<ReadyNode>> nodes;
  for (int i = 0; i < kServers; ++i) {
    JoiningNode node;
    node.server.id = "server" + std::to_string(i);
    for (int gpu = 0; gpu < kGpus; ++gpu)
      node.server.gpus.push_back({.uuid = UuidOfGpu(i, gpu), .model = "H100", .all = {kWholeShare, uint64_t{80} << 30}});
    node.state.others.resize(kGpus);
    nodes.push_back(std::make_shared<ReadyNode>(loop, node.server.id));
    loop.Post([&loop, node, end = nodes.back()](PlacerCore& core, int64_t now_ms) {
      loop.Attach(node.server.id, end, now_ms);
      (void)core.Join(node, now_ms);
    });
  }
  const uint64_t writes_before = loop.writes();
  const int count = rate * seconds;
  std::vector<std::shared_ptr<TimedJob>> jobs(static_cast<size_t>(count));
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    const Clock::time_point due = begin + std::chrono::microseconds(int64_t{1'000'000} * i / rate);
    std::this_thread::sleep_until(due);
    jobs[static_cast<size_t>(i)] = std::make_shared<TimedJob>(loop, times, due);
    loop.Post([&loop, i, job = jobs[static_cast<size_t>(i)]](PlacerCore& core, int64_t now_ms) {
      PlacerCore::Ask ask{.holder = "name:alice", .request_id = std::to_string(i)};
      ask.wish.share = kWholeShare / 4;
      Result<GrantId> id = core.Place(ask, now_ms);
      if (id.ok()) loop.Watch(*id, job);
    });
  }
  while (times.granted < count && Clock::now() - begin < std::chrono::seconds(3 * seconds + 10))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const double took_s = std::chrono::duration<double>(Clock::now() - begin).count();
  const double writes = static_cast<double>(loop.writes() - writes_before);
  const double disk_p99 = Quantile(disk, 0.99), p99 = Quantile(times.us, 0.99);
  std::printf(
      "{\"disk_p99_us\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"ratio\": %.2f, \"granted_per_s\": %.0f, "
      "\"grants_per_write\": %.2f}\n",
      disk_p99, Quantile(times.us, 0.5), p99, p99 / disk_p99, times.granted / took_s, times.granted / writes);
  std::fflush(stdout);
  std::_Exit(times.granted == count ? 0 : 1);
}

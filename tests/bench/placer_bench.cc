// How many grants a placer makes durable in a second, and how long each takes, with nodes that answer at once.
//
//   placer_bench FILE [--rate N] [--seconds S] [--turns T]      FILE: of the store
//
// N grants are asked for in a second (1000), for S seconds (5), in T turns (5). In each turn first what one transaction of the
// same store takes alone, synchronised: that is the disk. Then the grants: from the request until the job is told, at the stated
// rate, whether or not those before are done. A line of JSON with the median of each figure over the turns: {"disk_p99_us",
// "p50_us", "p99_us", "ratio", "granted_per_s", "grants_per_write"}; on stderr a line for each turn.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
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

using Figures = std::vector<std::pair<const char*, double>>;

void Print(std::FILE* file, const Figures& figures) {
  for (size_t i = 0; i < figures.size(); ++i)
    std::fprintf(file, "%s\"%s\": %.2f", i == 0 ? "{" : ", ", figures[i].first, figures[i].second);
  std::fprintf(file, "}\n");
}

double DiskP99Us(Store& store) {
  std::vector<double> us;
  for (int i = 0; i < 500; ++i) {
    const StoreTransaction one{.changes = {{"disk", std::string(400, static_cast<char>('a' + i % 26))}}};
    const Clock::time_point begin = Clock::now();
    (void)store.Commit({&one, 1});
    us.push_back(Us(Clock::now() - begin));
  }
  return Quantile(us, 0.99);
}

// A placer with its nodes, from one turn's begin to its end: its thread has the store meanwhile.
class Pool {
 public:
  explicit Pool(Store& store) : loop_(PlacerLoop::Start({}, TicketSigner::Make().value(), store).value()) {
    for (int i = 0; i < kServers; ++i) {
      JoiningNode node;
      node.server.id = "server" + std::to_string(i);
      for (int gpu = 0; gpu < kGpus; ++gpu)
        node.server.gpus.push_back({.uuid = UuidOfGpu(i, gpu), .model = "H100", .all = {kWholeShare, uint64_t{80} << 30}});
      node.state.others.resize(kGpus);
      nodes_.push_back(std::make_shared<ReadyNode>(*loop_, node.server.id));
      loop_->Post([this, node, end = nodes_.back()](PlacerCore& core, int64_t now_ms) {
        loop_->Attach(node.server.id, end, now_ms);
        (void)core.Join(node, now_ms);
      });
    }
  }
  // Of `turn`, whose requests are no other's. False: not all were granted.
  bool Measure(int turn, int rate, int seconds, double disk_p99_us, Figures* figures) {
    Times times;
    const uint64_t writes_before = loop_->writes();
    const int count = rate * seconds;
    std::vector<std::shared_ptr<TimedJob>> jobs(static_cast<size_t>(count));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < count; ++i) {
      const Clock::time_point due = begin + std::chrono::microseconds(int64_t{1'000'000} * i / rate);
      std::this_thread::sleep_until(due);
      jobs[static_cast<size_t>(i)] = std::make_shared<TimedJob>(*loop_, times, due);
      loop_->Post([this, turn, i, job = jobs[static_cast<size_t>(i)]](PlacerCore& core, int64_t now_ms) {
        PlacerCore::Ask ask{.holder = "name:alice", .request_id = std::to_string(turn) + "-" + std::to_string(i)};
        ask.wish.share = kWholeShare / 4;
        Result<GrantId> id = core.Place(ask, now_ms);
        if (id.ok()) loop_->Watch(*id, job);
      });
    }
    while (times.granted < count && Clock::now() - begin < std::chrono::seconds(3 * seconds + 10))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const double took_s = std::chrono::duration<double>(Clock::now() - begin).count();
    const auto writes = static_cast<double>(loop_->writes() - writes_before);
    loop_->End();  // nobody has the jobs any more
    const double p99 = Quantile(times.us, 0.99);
    *figures = {
        {"disk_p99_us", disk_p99_us}, {"p50_us", Quantile(times.us, 0.5)},       {"p99_us", p99},
        {"ratio", p99 / disk_p99_us}, {"granted_per_s", times.granted / took_s}, {"grants_per_write", times.granted / writes}};
    return times.granted == count;
  }

 private:
  const std::unique_ptr<PlacerLoop> loop_;
  std::vector<std::shared_ptr<ReadyNode>> nodes_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: placer_bench FILE [--rate N] [--seconds S] [--turns T]\n");
    return 2;
  }
  int rate = 1'000, seconds = 5, turns = 5;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rate") == 0) rate = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--turns") == 0) turns = std::max(1, std::atoi(argv[i + 1]));
  }
  Result<std::unique_ptr<Store>> store = OpenSqliteStore(argv[1]);
  if (!store.ok()) {
    std::fprintf(stderr, "placer_bench: %s\n", store.status().message().c_str());
    return 1;
  }
  std::vector<Figures> all;
  bool is_whole = true;
  for (int turn = 0; turn < turns; ++turn) {
    const double disk_p99_us = DiskP99Us(**store);
    is_whole = Pool(**store).Measure(turn, rate, seconds, disk_p99_us, &all.emplace_back()) && is_whole;
    Print(stderr, all.back());
  }
  Figures median = all.front();
  for (size_t i = 0; i < median.size(); ++i) {
    std::vector<double> values;
    for (const Figures& each : all) values.push_back(each[i].second);
    median[i].second = Quantile(values, 0.5);
  }
  Print(stdout, median);
  return is_whole ? 0 : 1;
}

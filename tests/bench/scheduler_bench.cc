// What a decision about a GPU's time costs: a holder's turn ends, and the policy finds the next one. Compare ratios of one run.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "scheduler/gpu_time.h"
#include "scheduler/policies/policies.h"

namespace tessera {
namespace {

// A GPU whose vGPUs all want all of it. Each turn is what a broker does for one: the token goes on, its worker begins, runs to
// the end and waits again.
class Contended {
 public:
  Contended(std::string_view policy, int64_t vgpus) : time_({.request_zero = false}, std::move(MakePolicy(policy)).value()) {
    for (int64_t i = 0; i < vgpus; ++i) {
      const VgpuSpec spec = {.name = "v" + std::to_string(i), .request = (i % 2 == 0 ? 0.5 : 1.5) / static_cast<double>(vgpus)};
      sessions_.push_back(time_.SessionCame(time_.AddVgpu(spec, 0).value(), 0));
      time_.Worked(sessions_.back(), 0);
    }
    time_.Decide(0);
    for (const SessionId session : sessions_) time_.SetWants(session, true, 0);
    time_.Decide(0);
  }

  // Two decisions: before the token's end, and at it.
  void Turn() {
    const SessionId session = sessions_[*time_.holder()];
    time_.BusyBegan(session, now_ns_);
    time_.SetWants(session, false, now_ns_);
    const int64_t end_ns = time_.gate(*time_.holder()).open_until_ns;
    benchmark::DoNotOptimize(time_.Decide(end_ns - kMillisecondNs / 4));
    time_.SetWants(session, true, end_ns);
    time_.BusyEnded(session, end_ns);
    benchmark::DoNotOptimize(time_.Decide(end_ns));
    now_ns_ = end_ns;
  }

 private:
  GpuTime time_;
  std::vector<SessionId> sessions_;
  int64_t now_ns_ = 0;
};

void BM_Decisions(benchmark::State& state, std::string_view policy) {
  Contended gpu(policy, state.range(0));
  for (int i = 0; i < 2000; ++i) gpu.Turn();  // the windows fill
  for (auto _ : state) gpu.Turn();
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK_CAPTURE(BM_Decisions, fair, "fair")->Arg(8)->Arg(64)->Arg(256);
BENCHMARK_CAPTURE(BM_Decisions, equal, "equal")->Arg(8)->Arg(64);
BENCHMARK_CAPTURE(BM_Decisions, priority, "priority")->Arg(8)->Arg(64);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();

// What a ring costs: appending, a round trip between two threads, throughput. Absolute numbers mean little on a shared
// machine; compare ratios of one run.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "protocol/channel/ring.h"

namespace tessera {
namespace {

class Ring {
 public:
  explicit Ring(uint32_t size_bytes)
      : block_(static_cast<std::byte*>(std::aligned_alloc(4096, RingMemory::TotalBytes(size_bytes))), &std::free) {
    std::memset(block_.get(), 0, RingMemory::TotalBytes(size_bytes));
    memory = RingMemory::At(block_.get(), size_bytes);
  }
  RingMemory memory;

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> block_;
};

void Append(RingProducer& out, std::span<const std::byte> record) {
  while (!out.TryAppend(record)) (void)out.WaitForSpace(record.size(), kNoDeadline, {});
}

void Take(RingConsumer& in, const StopPredicate& stop, bool* stopped) {
  while (in.Peek().empty()) {
    if (!in.Wait(kNoDeadline, stop).ok()) {
      *stopped = true;
      return;
    }
  }
  in.Release();
}

// One thread does both ends: the instructions alone, no waiting for the other core.
void BM_AppendAndTake(benchmark::State& state) {
  Ring ring(4 << 20);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  const std::vector<std::byte> record(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    out.TryAppend(record);
    benchmark::DoNotOptimize(in.Peek());
    in.Release();
  }
}
BENCHMARK(BM_AppendAndTake)->Arg(64)->Arg(256);

void BM_RoundTrip(benchmark::State& state) {
  Ring there(64 << 10), back(64 << 10);
  RingProducer out(there.memory), echo_out(back.memory);
  RingConsumer echo_in(there.memory), in(back.memory);
  std::atomic<bool> done{false};
  const StopPredicate stop = [&] { return done ? Status(StatusCode::kUnavailable, "done") : Status::Ok(); };
  const std::vector<std::byte> record(64);
  std::thread echo([&] {
    for (bool stopped = false; !stopped;) {
      Take(echo_in, stop, &stopped);
      if (!stopped) Append(echo_out, record);
    }
  });
  bool stopped = false;
  for (auto _ : state) {
    Append(out, record);
    Take(in, {}, &stopped);
  }
  done = true;
  echo_in.WakeWaiters();
  echo.join();
}
BENCHMARK(BM_RoundTrip)->UseRealTime();

void BM_Throughput(benchmark::State& state) {
  Ring ring(4 << 20);
  RingProducer out(ring.memory);
  RingConsumer in(ring.memory);
  std::atomic<bool> done{false};
  const StopPredicate stop = [&] { return done ? Status(StatusCode::kUnavailable, "done") : Status::Ok(); };
  std::thread consumer([&] {
    for (bool stopped = false; !stopped;) Take(in, stop, &stopped);
  });
  const std::vector<std::byte> record(static_cast<size_t>(state.range(0)));
  for (auto _ : state) Append(out, record);
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
  done = true;
  in.WakeWaiters();
  consumer.join();
}
BENCHMARK(BM_Throughput)->Arg(64)->Arg(1024)->Arg(65536)->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();

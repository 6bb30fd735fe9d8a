// Report pages with any bytes, through the looks of a broker: what it decides from them has to hold all the same. Input: pieces
// of u8 what happens, u8 which session, u16 how many microseconds pass, and for a write u16 where and u64 what.
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "scheduler/policies/policies.h"
#include "server/broker/gpu.h"
#include "tests/fuzz/target.h"

namespace tessera::fuzz {
namespace {

constexpr size_t kSessions = 3;
constexpr int kStepsMax = 2'000;  // of one input
constexpr size_t kWords = sizeof(ReportPage) / sizeof(uint64_t);

enum Step : uint8_t { kWrite, kRing, kTime, kAgain };

struct Worker {
  GatePage gate{};
  ReportPage report{};
  WorkerPages pages{gate, report};
  Gpu::Member* member = nullptr;
};

// The broker's side of one GPU: three sessions in three vGPUs.
struct World {
  explicit World(uint8_t choice) {
    const auto names = PolicyNames();
    TracedGpuTime::Sink sink = [this](const SchedulerEvent& event) {
      ++events;
      // Nothing is told of the future, or of before the session came.
      FUZZ_CHECK(event.at_ns >= begin_ns && event.at_ns <= now_ns);
    };
    gpu = std::make_unique<Gpu>(choice / names.size() % kGateRowsMax, AdmissionRules{},
                                std::move(MakePolicy(names[choice % names.size()])).value(), kSecondNs / 10, std::move(sink));
    const VgpuSpec specs[kSessions] = {{"a", 0.6, 1, Priority::kNormal, Overrun::kEnd},
                                       {"b", 0.2, 0.5, Priority::kProtected},
                                       {"default", 0, 1, Priority::kBestEffort}};
    for (size_t i = 0; i < kSessions; ++i) {
      FUZZ_CHECK(gpu->Add(specs[i], now_ns).ok());
      Join(i);
    }
  }
  void Join(size_t i) {
    const char* names[] = {"a", "b", "default"};
    workers[i].member = gpu->Join(workers[i].pages, gpu->FindVgpu(names[i]).value(), i != 2, now_ns);
  }
  void Turn() {
    gpu->Turn(now_ns);
    const int64_t again_ns = gpu->again_ns();
    FUZZ_CHECK(again_ns > now_ns);
    int64_t billed_ns = 0;
    for (const VgpuId vgpu : gpu->time().vgpus()) billed_ns += gpu->time().ledger().BilledNs(vgpu);
    FUZZ_CHECK(billed_ns <= now_ns - begin_ns);
  }

  const int64_t begin_ns = 1'000'000'000;
  int64_t now_ns = begin_ns;
  uint64_t events = 0;
  Worker workers[kSessions];
  std::unique_ptr<Gpu> gpu;
};

}  // namespace

void Run(std::span<const std::byte> input) {
  Reader reader(input);
  const auto world = std::make_unique<World>(reader.Take<uint8_t>());
  for (int step = 0; step < kStepsMax && !reader.empty(); ++step) {
    const auto what = reader.Take<uint8_t>();
    const size_t which = reader.Take<uint8_t>() % kSessions;
    world->now_ns += reader.Take<uint16_t>() * int64_t{1'000};
    Worker& worker = world->workers[which];
    switch (what % 8) {
      default: {
        const size_t at = reader.Take<uint16_t>() % kWords;
        const auto word = reader.Take<uint64_t>();
        std::memcpy(reinterpret_cast<std::byte*>(&worker.report) + at * sizeof(word), &word, sizeof(word));
        break;
      }
      case kRing: {
        const uint64_t before = world->events;
        world->gpu->Look(*worker.member, world->now_ns);
        FUZZ_CHECK(world->events - before <= 2 * ReportPage::kSpans + 8);
        break;
      }
      case kTime: world->Turn(); break;
      case kAgain:
        world->gpu->Leave(worker.member, world->now_ns);
        world->Join(which);
        break;
    }
  }
  world->now_ns += 1'000'000;
  world->Turn();
}

namespace {

struct Story {
  explicit Story(uint8_t policy) { writer.Put(policy); }
  Story& Do(Step step, uint8_t which, uint16_t passes_us) {
    writer.Put(static_cast<uint8_t>(step)).Put(which).Put(passes_us);
    return *this;
  }
  Story& Write(uint8_t which, size_t offset, uint64_t word) {
    Do(kWrite, which, 10);
    writer.Put(static_cast<uint16_t>(offset / sizeof(word))).Put(word);
    return *this;
  }
  Writer writer;
};

}  // namespace

std::vector<Input> Seeds() {
  const size_t row = offsetof(ReportPage, rows);
  std::vector<Input> seeds;
  for (uint8_t policy = 0; policy < 4; ++policy) {
    Story story(policy);
    story.Do(kTime, 0, 1'000);
    for (uint8_t round = 0; round < 12; ++round) {
      const uint8_t which = round % kSessions;
      const uint64_t at_ns = 1'001'000'000 + round * uint64_t{100'000};
      story.Write(which, offsetof(ReportPage, executed), round + 1).Do(kTime, which, 1'000);
      story.Write(which, row + offsetof(ReportPage::Row, wants_since_ns), at_ns).Do(kRing, which, 20).Do(kTime, which, 20);
      story.Write(which, row + offsetof(ReportPage::Row, busy_since_ns), at_ns)
          .Write(which, row + offsetof(ReportPage::Row, wants_since_ns), 0);
      story.Write(which, row + offsetof(ReportPage::Row, queued_at_ns), at_ns)
          .Write(which, row + offsetof(ReportPage::Row, queued_ns), 5'000'000);
      story.Do(kRing, which, 300).Do(kTime, which, 20);
      story.Write(which, row + offsetof(ReportPage::Row, spans) + round * sizeof(ReportPage::Span), at_ns);
      story.Write(which, row + offsetof(ReportPage::Row, spans) + round * sizeof(ReportPage::Span) + 8, at_ns + 300'000);
      story.Write(which, row + offsetof(ReportPage::Row, span_count), round + 1)
          .Write(which, row + offsetof(ReportPage::Row, busy_since_ns), 0);
      story.Do(kRing, which, 10).Do(kTime, which, 5'000).Do(kTime, which, 60'000);
    }
    story.Do(kAgain, 1, 10).Do(kTime, 1, 10);
    seeds.push_back(story.writer.input());
  }
  return seeds;
}

}  // namespace tessera::fuzz

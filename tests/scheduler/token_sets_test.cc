// Sets of tokens in virtual time: what they are for, and what they must not do.
#include "scheduler/token_sets.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "scheduler/simulate/replay.h"
#include "tests/scheduler/several_gpus.h"
#include "tests/support/times.h"

namespace tessera {
namespace {

constexpr int64_t kIdleMaxNs = GpuTime::kAssembleNs + 2 * SeveralGpus::kStepNs;

std::unique_ptr<SeveralGpus> RunOf(size_t gpus, bool sets, const std::vector<Program>& programs,
                                   int64_t length_ns = 5 * kSecondNs) {
  auto server = std::make_unique<SeveralGpus>(gpus, sets);
  for (const Program& program : programs) server->Add(program);
  server->RunFor(length_ns);
  return server;
}

int64_t StepsOf(const SeveralGpus& server, size_t programs) {
  int64_t steps = 0;
  for (size_t i = 0; i < programs; ++i) steps += server.figures(i).steps;
  return steps;
}

// A step on two GPUs, in this order.
Program OnTwo(const std::string& name, size_t first, size_t second, int64_t kernel_ns, bool collective) {
  return {.name = name, .request = 0.4, .steps = {{first, kernel_ns}, {second, kernel_ns}}, .collective = collective};
}

TEST(TokenSetsTest, TwoInLockstepHaveHalfEachAndLoseNothing) {
  for (const bool collective : {false, true}) {
    for (const int64_t kernel_ns : {kMs / 5, kMs, 5 * kMs}) {
      for (const size_t first : {0, 1}) {
        const std::vector<Program> programs = {OnTwo("a", 0, 1, kernel_ns, collective),
                                               OnTwo("b", first, 1 - first, kernel_ns, collective)};
        const auto with = RunOf(2, true, programs), without = RunOf(2, false, programs);
        EXPECT_GE(StepsOf(*with, 2), StepsOf(*without, 2)) << collective << kernel_ns << first;
        for (const size_t gpu : {0, 1}) {
          const auto a = static_cast<double>(with->figures(0).billed_ns[gpu]);
          const auto b = static_cast<double>(with->figures(1).billed_ns[gpu]);
          EXPECT_NEAR(a / (a + b), 0.5, 0.02) << collective << kernel_ns << first;
          EXPECT_LE(with->longest_idle_ns(gpu), kIdleMaxNs);
        }
      }
    }
  }
}

// Each has one GPU, where its kernel waits for the other one's: both are burned.
TEST(TokenSetsTest, KernelsThatWaitForOneAnotherGetBothGpus) {
  const std::vector<Program> programs = {OnTwo("a", 0, 1, kMs, true), OnTwo("b", 1, 0, kMs, true)};
  EXPECT_GE(StepsOf(*RunOf(2, true, programs), 2), StepsOf(*RunOf(2, false, programs), 2) * 2);
  const std::vector<Program> ring = {OnTwo("a", 0, 1, kMs, true), OnTwo("b", 1, 2, kMs, true), OnTwo("c", 2, 0, kMs, true)};
  const auto of_three = RunOf(3, true, ring);
  EXPECT_GE(StepsOf(*of_three, 3), 4800);  // no two of them can run at once
  for (const size_t each : {0, 1, 2}) EXPECT_GE(of_three->figures(each).steps, 1500);
}

TEST(TokenSetsTest, OneOnTwoGpusHasItsShareBesideOneOnEach) {
  for (const bool collective : {false, true}) {
    const auto server = RunOf(2, true,
                              {OnTwo("a", 0, 1, kMs, collective),
                               {.name = "b", .request = 0.4, .steps = {{0, 3 * kMs}}},
                               {.name = "c", .request = 0.4, .steps = {{1, kMs}}}});
    EXPECT_GE(server->figures(0).steps, 2200);  // of 2500; without sets 1250
    EXPECT_GE(server->figures(1).billed_ns[0], 2350 * kMs);
    EXPECT_GE(server->figures(2).billed_ns[1], 2350 * kMs);
  }
}

TEST(TokenSetsTest, AHolderThatOverrunsStopsNoSet) {
  const auto server = RunOf(2, true,
                            {OnTwo("a", 0, 1, kMs, false),
                             {.name = "b", .request = 0.2, .steps = {{1, 200 * kMs}}},
                             {.name = "c", .request = 0.2, .steps = {{0, kMs}}}});
  EXPECT_GE(server->figures(0).steps, 900);  // without sets 1056
  EXPECT_GE(server->figures(2).steps, 2400);
  EXPECT_LE(server->figures(2).longest_step_ns, 120 * kMs);
  EXPECT_LE(server->longest_idle_ns(0), kIdleMaxNs);
}

// It works on one GPU and then on the other: the second one would be idle for most of each token.
TEST(TokenSetsTest, WhoDoesNotUseASetIsNotGivenItOften) {
  const auto server = RunOf(2, true,
                            {{.name = "a", .request = 0.4, .steps = {{0, 8 * kMs}, {1, 100'000}}, .one_after_another = true},
                             {.name = "b", .request = 0.4, .steps = {{0, kMs}}},
                             {.name = "c", .request = 0.4, .steps = {{1, kMs}}}});
  EXPECT_LE(server->idle_ns(1), 100 * kMs);
  EXPECT_LE(server->longest_idle_ns(1), kIdleMaxNs);
  EXPECT_GE(server->figures(2).billed_ns[1], 4500 * kMs);
}

// It has next to no use for tokens of the other GPUs, and its set is another one, or none, ten times a second.
TEST(TokenSetsTest, WhoChangesItsGpusKeepsItsBackOff) {
  std::vector<Launch> steps(50, Launch{0, 10 * kMs});
  steps.insert(steps.end(), {{1, 100'000}, {2, 100'000}});
  for (const size_t set_gpus : {0, 2}) {
    const auto server = RunOf(3, true,
                              {{.name = "a",
                                .request = 0.4,
                                .steps = steps,
                                .one_after_another = true,
                                .set_changes_ns = 100 * kMs,
                                .set_gpus = set_gpus},
                               {.name = "b", .request = 0.4, .steps = {{0, kMs}}},
                               {.name = "c", .request = 0.4, .steps = {{1, kMs}}},
                               {.name = "d", .request = 0.4, .steps = {{2, kMs}}}});
    for (const size_t gpu : {1, 2}) {
      EXPECT_LE(server->idle_ns(gpu), 20 * kMs) << set_gpus << " " << gpu;
      EXPECT_LE(server->longest_idle_ns(gpu), kIdleMaxNs);
    }
  }
}

// What it could not use on one GPU while it waited for the other one is no claim to all of it.
TEST(TokenSetsTest, WhoWaitedElsewhereDoesNotComeBackWithAllOfThat) {
  SeveralGpus server(2, true);
  server.Add(OnTwo("a", 0, 1, kMs, false));
  server.Add({.name = "c", .request = 0.4, .steps = {{1, kMs}}});
  for (const char* name : {"d", "e", "f"})
    server.Add({.name = name, .request = 0.19, .steps = {{0, kMs}}, .end_ns = 3 * kSecondNs});
  server.RunFor(5 * kSecondNs);
  EXPECT_LE(server.figures(1).longest_step_ns, 80 * kMs);
}

// Random ones.

struct Load {
  size_t gpus = 2;
  std::vector<Program> programs;
};

Load MakeLoad(uint64_t seed) {
  std::mt19937_64 random(seed);
  Load load = {.gpus = 2 + random() % 3, .programs = {}};
  std::vector<double> left(load.gpus, 0.95);
  const size_t count = 2 + random() % 5;
  for (size_t i = 0; i < count; ++i) {
    Program program = {.name = fmt::format("v{}", i), .collective = random() % 4 == 0};
    std::vector<size_t> gpus(load.gpus);
    for (size_t gpu = 0; gpu < load.gpus; ++gpu) gpus[gpu] = gpu;
    std::ranges::shuffle(gpus, random);
    gpus.resize(1 + random() % load.gpus);
    constexpr int64_t kKernelsUs[] = {100, 300, 1000, 4000};
    const int64_t common_ns = kKernelsUs[random() % 4] * 1000;
    for (const size_t gpu : gpus) {
      const int64_t kernel_ns = program.collective ? common_ns : kKernelsUs[random() % 4] * 1000;
      program.steps.push_back({gpu, kernel_ns});
      if (!program.collective && random() % 2 == 0) program.steps.push_back({gpu, kernel_ns});
    }
    program.request = 0.95;
    for (const size_t gpu : gpus) program.request = std::min(program.request, 0.6 * left[gpu]);
    for (const size_t gpu : gpus) left[gpu] -= program.request;
    if (random() % 3 == 0) program.rest_ns = static_cast<int64_t>(random() % 8) * kMs;
    if (random() % 3 == 0) program.begin_ns = static_cast<int64_t>(random() % 1000) * kMs;
    program.one_after_another = !program.collective && random() % 4 == 0;
    load.programs.push_back(program);
  }
  return load;
}

constexpr uint64_t kSeeds = 60;

TEST(TokenSetsPropertyTest, AllGoOnAndNoGpuIsHeldForLongAndWhatItIsHeldForIsCharged) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Load load = MakeLoad(seed);
    const auto server = RunOf(load.gpus, true, load.programs, 4 * kSecondNs);
    std::vector<int64_t> charged_ns(load.gpus);
    for (size_t i = 0; i < load.programs.size(); ++i) {
      const SeveralGpus::Figures figures = server->figures(i);
      EXPECT_GE(figures.last_step_ns, server->now_ns() - kSecondNs / 2) << seed << " " << i;
      EXPECT_LE(figures.longest_step_ns, kSecondNs) << seed << " " << i;
      for (size_t gpu = 0; gpu < load.gpus; ++gpu) charged_ns[gpu] += figures.charged_ns[gpu];
    }
    for (size_t gpu = 0; gpu < load.gpus; ++gpu) {
      EXPECT_LE(server->longest_idle_ns(gpu), kIdleMaxNs) << seed << " " << gpu;
      EXPECT_LE(server->idle_ns(gpu), server->now_ns() / 8) << seed << " " << gpu;
      EXPECT_GE(charged_ns[gpu], server->held_ns(gpu) * 8 / 10) << seed << " " << gpu;
    }
  }
}

// Who works on one GPU alone, and always, gets its request whatever sets do around it.
TEST(TokenSetsPropertyTest, SetsTakeNothingOfTheSharesOfOthers) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Load load = MakeLoad(seed);
    const auto server = RunOf(load.gpus, true, load.programs, 3 * kSecondNs);
    std::vector<int64_t> before_ns;
    const auto billed_ns = [&](size_t i) { return server->figures(i).billed_ns[load.programs[i].steps[0].gpu]; };
    for (size_t i = 0; i < load.programs.size(); ++i) before_ns.push_back(billed_ns(i));
    server->RunFor(3 * kSecondNs);
    for (size_t i = 0; i < load.programs.size(); ++i) {
      const Program& program = load.programs[i];
      const size_t gpu = program.steps[0].gpu;
      const bool alone = std::ranges::all_of(program.steps, [&](const Launch& each) { return each.gpu == gpu; });
      if (!alone || program.rest_ns > 0 || server->gpu(gpu).mode() != GpuMode::kMetered) continue;
      EXPECT_GE(static_cast<double>(billed_ns(i) - before_ns[i]) / 3e9, program.request - 0.05) << seed << " " << i;
    }
  }
}

TEST(TokenSetsPropertyTest, EachGpusRecordIsReplayedByItselfBitForBit) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Load load = MakeLoad(seed);
    const auto server = RunOf(load.gpus, true, load.programs, kSecondNs),
               again = RunOf(load.gpus, true, load.programs, kSecondNs);
    for (size_t gpu = 0; gpu < load.gpus; ++gpu) {
      EXPECT_EQ(server->record(gpu), again->record(gpu)) << seed;
      const Result<SchedulerTrace> trace = ParseTrace(server->record(gpu));
      ASSERT_TRUE(trace.ok()) << trace.status().message();
      const Result<Replayed> replayed = Replay(trace.value());
      ASSERT_TRUE(replayed.ok()) << replayed.status().message();
      EXPECT_EQ(replayed.value().difference.value_or(""), "") << seed;
    }
  }
}

TEST(TokenSetsPropertyTest, WhoWorksOnOneGpuAloneSeesNoChange) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Load load = MakeLoad(seed);
    for (Program& program : load.programs) {
      for (Launch& launch : program.steps) launch.gpu = program.steps[0].gpu;
    }
    const auto with = RunOf(load.gpus, true, load.programs, kSecondNs),
               without = RunOf(load.gpus, false, load.programs, kSecondNs);
    EXPECT_EQ(with->orders(), 0) << seed;
    for (size_t gpu = 0; gpu < load.gpus; ++gpu) EXPECT_EQ(with->record(gpu), without->record(gpu)) << seed;
  }
}

// Slots do not come together because a session wants them to.
TEST(TokenSetsPropertyTest, ByEveryPolicyAllGoOn) {
  for (const std::string_view policy : {"equal", "fixed", "priority"}) {
    for (uint64_t seed = 1; seed <= 15; ++seed) {
      Load load = MakeLoad(seed);
      std::mt19937_64 random(seed);
      SeveralGpus server(load.gpus, true, policy);
      for (Program& program : load.programs) {
        program.priority = std::array{Priority::kProtected, Priority::kNormal, Priority::kBestEffort}[random() % 3];
        program.collective &= policy != "fixed";
        server.Add(program);
      }
      server.RunFor(3 * kSecondNs);
      for (size_t i = 0; i < load.programs.size(); ++i) EXPECT_GT(server.figures(i).steps, 3) << policy << seed << " " << i;
      for (size_t gpu = 0; policy != "fixed" && gpu < load.gpus; ++gpu) {
        EXPECT_LE(server.longest_idle_ns(gpu), kIdleMaxNs) << policy << seed;
      }
    }
  }
}

}  // namespace
}  // namespace tessera

// Random programs of copies, sets, kernels, host functions, waits and work of a second process, each compared byte for byte with
// what CUDA's order must leave. On a GPU natively and forwarded, and on the emulator, with and without TESSERA_EMULATOR_SLOW.
//
// usage: order_programs [--seed N] [--count M] [--wait-us U] [--native] [--ipc] [--verbose] [--shrink] [--all]
// One program for each seed from N on. --wait-us: kernels wait so long before they touch memory, for fast devices. --ipc: a
// second process works in memory of this one, or this fails; without it, where that is refused it is left out. --verbose:
// prints every program. --shrink: takes away what a program that failed does not need to fail; prints what is left. --all: goes
// on after a failure. The last line is "OK ..." and "ok", or says what differed and how to repeat it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "generator.h"
#include "model.h"
#include "order.h"
#include "other_process.h"
#include "runner.h"

using namespace order_programs;

namespace {

// Whether it fails in one of some runs; says what differed.
bool Fails(World& world, const Program& program, std::string* difference) {
  const Model model(program);
  for (int run = 0; run < 12; ++run) {
    std::string found = world.Run(program, model);
    if (found.empty()) continue;
    *difference = found;
    return true;
  }
  return false;
}

void Shrink(World& world, Program program, std::string difference, bool native) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t i = program.operations.size(); i-- > 0;) {
      Program candidate = Without(program, i);
      if (!IsOrdered(candidate, native) || !Fails(world, candidate, &difference)) continue;
      program = std::move(candidate);
      smaller = true;
    }
  }
  std::printf("what is left of it:\n%s%s\n", Text(program).c_str(), difference.c_str());
}

}  // namespace

int main(int count, char** words) {
  if (count == 2 && words[1] == std::string(kOtherProcess)) return BeOtherProcess();
  uint64_t first = 0, programs = 100;
  unsigned wait_us = 0;
  bool native = false, ipc = false, all = false, verbose = false, shrink = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto number = [&] {
      if (i + 1 >= count) std::exit(2);
      return std::strtoull(words[++i], nullptr, 0);
    };
    if (word == "--seed") {
      first = number();
    } else if (word == "--count") {
      programs = number();
    } else if (word == "--wait-us") {
      wait_us = static_cast<unsigned>(number());
    } else if (word == "--native") {
      native = true;
    } else if (word == "--ipc") {
      ipc = true;
    } else if (word == "--all") {
      all = true;
    } else if (word == "--verbose") {
      verbose = true;
    } else if (word == "--shrink") {
      shrink = true;
    } else {
      std::fprintf(stderr, "unknown word %s\n", words[i]);
      return 2;
    }
  }
  OtherProcess other;
  const CUfunction kernel = LoadOrderKernel();
  std::unique_ptr<World> world;
  uint64_t failures = 0;
  bool alone = false;
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    if (world == nullptr || seed % kProgramsOfWorld == 0) {
      world.reset();
      world = std::make_unique<World>(kernel, WorldBytes(seed), wait_us, &other);
    }
    if (world->shared() != CUDA_SUCCESS && !alone) {
      std::printf("work of a second process is left out: handles of memory are refused (%d)\n",
                  static_cast<int>(world->shared()));
      if (ipc) return 1;
      alone = true;
    }
    const Program program = Generate(seed, native, !alone);
    if (verbose) std::printf("seed %llu, %s", static_cast<unsigned long long>(seed), Text(program).c_str());
    const std::string difference = world->Run(program, Model(program));
    if (difference.empty()) continue;
    const uint64_t begin = std::max(first, seed / kProgramsOfWorld * kProgramsOfWorld);
    std::printf("seed %llu, %s", static_cast<unsigned long long>(seed), Text(program).c_str());
    if (shrink) Shrink(*world, program, difference, native);
    std::printf("seed %llu: %s; repeat: --seed %llu --count %llu\n", static_cast<unsigned long long>(seed), difference.c_str(),
                static_cast<unsigned long long>(begin), static_cast<unsigned long long>(seed - begin + 1));
    ++failures;
    if (!all) break;
  }
  world.reset();
  if (failures != 0) {
    std::printf("BAD %llu programs\n", static_cast<unsigned long long>(failures));
    return 1;
  }
  std::printf("OK %llu programs, seeds %llu to %llu\nok\n", static_cast<unsigned long long>(programs),
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + programs - 1));
  return 0;
}

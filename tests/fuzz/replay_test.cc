// A fuzz target as an ordinary test: its seeds, inputs that once found a mistake (those in $TESSERA_FUZZ_FOUND), and
// damaged copies of both. The damage is the same in every run; on a slow machine there is less of it. By hand, where libFuzzer is
// not: TESSERA_FUZZ_SECONDS is how long to damage, then by the seed TESSERA_FUZZ_SEED, and what is being run is in the file
// TESSERA_FUZZ_INPUT.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "protocol/base/clock.h"
#include "protocol/base/log.h"
#include "tests/fuzz/files.h"
#include "tests/fuzz/target.h"

namespace tessera::fuzz {
namespace {

constexpr int kDamagedMax = 20'000;
constexpr uint64_t kDamageNs = 4'000'000'000;
constexpr size_t kInputBytesMax = 64 * 1024;

std::vector<Input> Found() {
  const char* directory = std::getenv("TESSERA_FUZZ_FOUND");
  return directory != nullptr ? FilesOf(directory) : std::vector<Input>();
}

uint64_t NumberIn(const char* variable, uint64_t otherwise) {
  const char* number = std::getenv(variable);
  return number != nullptr ? std::strtoull(number, nullptr, 10) : otherwise;
}

// Numbers that lengths and counts are compared with.
constexpr uint64_t kEdges[] = {0,
                               1,
                               7,
                               8,
                               0x7f,
                               0x80,
                               0xff,
                               0x7fff,
                               0xffff,
                               0x7fffffff,
                               0x80000000,
                               0xffffffff,
                               uint64_t{1} << 40,
                               uint64_t{1} << 63,
                               UINT64_MAX - 7,
                               UINT64_MAX};

void Damage(std::mt19937& random, const std::vector<Input>& others, Input* input) {
  for (uint32_t times = 1 + random() % 3; times > 0; --times) {
    const size_t size = input->size();
    const size_t at = size == 0 ? 0 : random() % size;
    const auto place = input->begin() + static_cast<ptrdiff_t>(at);
    const size_t length = std::min<size_t>(size - at, 1 + random() % 16);
    switch (random() % 7) {
      case 0:
        if (size != 0) *place ^= static_cast<std::byte>(1 << random() % 8);
        break;
      case 1:
        if (size != 0) *place = static_cast<std::byte>(random());
        break;
      case 2: {
        const uint64_t edge = kEdges[random() % std::size(kEdges)];
        const size_t bytes = std::min<size_t>(size - at, size_t{1} << random() % 4);
        if (size != 0) std::memcpy(&*place, &edge, bytes);
        break;
      }
      case 3: input->erase(place, place + static_cast<ptrdiff_t>(length)); break;
      case 4: {
        const Input copy(place, place + static_cast<ptrdiff_t>(length));
        input->insert(place, copy.begin(), copy.end());
        break;
      }
      case 5: input->resize(at); break;
      default: {
        const Input& other = others[random() % others.size()];
        const size_t from = other.empty() ? 0 : random() % other.size();
        input->resize(at);
        input->insert(input->end(), other.begin() + static_cast<ptrdiff_t>(from), other.end());
        break;
      }
    }
  }
  if (input->size() > kInputBytesMax) input->resize(kInputBytesMax);
}

TEST(FuzzReplay, SeedsAndDamage) {
  SetLogLevel(LogLevel::kOff);
  std::vector<Input> inputs = Seeds();
  ASSERT_FALSE(inputs.empty());
  for (Input& input : Found()) inputs.push_back(std::move(input));
  for (const Input& input : inputs) fuzz::Run(input);
  const uint64_t seconds = NumberIn("TESSERA_FUZZ_SECONDS", 0);
  const char* current = std::getenv("TESSERA_FUZZ_INPUT");
  std::mt19937 random(static_cast<uint32_t>(NumberIn("TESSERA_FUZZ_SEED", 1)));
  const uint64_t end_ns = MonotonicNs() + (seconds != 0 ? seconds * 1'000'000'000 : kDamageNs);
  int damaged = 0;
  for (; (seconds != 0 || damaged < kDamagedMax) && MonotonicNs() < end_ns; ++damaged) {
    Input input = inputs[random() % inputs.size()];
    Damage(random, inputs, &input);
    if (current != nullptr) {
      std::ofstream(current, std::ios::binary)
          .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
    }
    fuzz::Run(input);
  }
  std::printf("%zu inputs, %d damaged ones\n", inputs.size(), damaged);
}

}  // namespace
}  // namespace tessera::fuzz

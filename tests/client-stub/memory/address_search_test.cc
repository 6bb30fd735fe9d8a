#include "client-stub/memory/address_search.h"

#include <gtest/gtest.h>

#include <cstring>
#include <iterator>
#include <random>
#include <vector>

namespace tessera {
namespace {

std::vector<uint64_t> Found(const Range& window, const std::vector<std::byte>& bytes) {
  std::vector<uint64_t> found;
  EXPECT_TRUE(ForEachAddress(window, bytes, [&](uint64_t address) {
    found.push_back(address);
    return true;
  }));
  return found;
}

std::vector<uint64_t> FoundSlowly(const Range& window, const std::vector<std::byte>& bytes) {
  std::vector<uint64_t> found;
  for (size_t at = 0; at + sizeof(uint64_t) <= bytes.size(); ++at) {
    uint64_t address = 0;
    std::memcpy(&address, bytes.data() + at, sizeof(address));
    if (window.contains(address)) found.push_back(address);
  }
  return found;
}

constexpr Range kOneByte{0x7e1000000000, uint64_t{1} << 36};
constexpr Range kTwoBytes{0x7dff00000000, uint64_t{1} << 40};

TEST(AddressSearch, FindsAnAddressWhereverItBegins) {
  for (const Range& window : {kOneByte, kTwoBytes}) {
    for (size_t size = 0; size < 40; ++size) {
      for (size_t at = 0; at + 8 <= size; ++at) {
        for (uint64_t address : {window.base, window.end() - 1}) {
          std::vector<std::byte> bytes(size);
          std::memcpy(bytes.data() + at, &address, sizeof(address));
          EXPECT_EQ(Found(window, bytes), std::vector{address}) << at << " of " << size;
        }
        for (uint64_t address : {window.base - 1, window.end()}) {
          std::vector<std::byte> bytes(size);
          std::memcpy(bytes.data() + at, &address, sizeof(address));
          EXPECT_TRUE(Found(window, bytes).empty());
        }
      }
    }
  }
}

TEST(AddressSearch, FindsWhatLookingEverywhereFinds) {
  std::mt19937 random(3);
  const unsigned likely[] = {0, 0, 0, 0x7d, 0x7e, 0x7e, 0xff, 0x10};
  size_t found = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes(random() % 300);
    for (std::byte& byte : bytes) byte = std::byte(likely[random() % std::size(likely)]);
    for (const Range& window : {kOneByte, kTwoBytes}) {
      EXPECT_EQ(Found(window, bytes), FoundSlowly(window, bytes));
      found += Found(window, bytes).size();
    }
  }
  EXPECT_GT(found, 1000u);
}

TEST(AddressSearch, EndsWhenItIsTold) {
  std::vector<std::byte> bytes(64);
  for (size_t at : {0, 16, 32}) std::memcpy(bytes.data() + at, &kOneByte.base, sizeof(uint64_t));
  int calls = 0;
  EXPECT_FALSE(ForEachAddress(kOneByte, bytes, [&](uint64_t) { return ++calls < 2; }));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace tessera

#include "protocol/image/image_key.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace tessera {
namespace {

std::vector<std::byte> Bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// What files on disks are called must not change with a release. Expected: hashlib of Python,
// sha256(size as 8 bytes, little-endian, + sha256(part) of each MiB).
TEST(ImageKey, IsTheHashOfSizeAndParts) {
  EXPECT_EQ(KeyOf(Bytes(0)).Hex(), "af5570f5a1810b7af78caf4bc70a660f0df51e42baf91d4de5b2328de0e83dfc");
  EXPECT_EQ(KeyOf(Bytes(1000)).Hex(), "bf7fb795565452f29dd27baa9247872a56fc9191b1d0a74f8de4b1c4f99f5aeb");
  EXPECT_EQ(KeyOf(Bytes((3 << 20) + 5)).Hex(), "31d4293e68842ec8968c7af9267f99a41c823cf2b27ce56d8648620d19b981fa");
}

TEST(ImageKey, EveryByteAndTheSizeCount) {
  std::set<ImageKey> keys;
  std::vector<std::byte> bytes = Bytes((1 << 20) + 3);
  keys.insert(KeyOf(bytes));
  for (const size_t i : {size_t{0}, size_t{1 << 20} - 1, size_t{1 << 20}, bytes.size() - 1}) {
    bytes[i] ^= std::byte{1};
    keys.insert(KeyOf(bytes));
    bytes[i] ^= std::byte{1};
  }
  bytes.push_back(std::byte{0});
  keys.insert(KeyOf(bytes));
  EXPECT_EQ(keys.size(), 6u);
}

TEST(ImageKey, IsTheSameHoweverManyThreadsWork) {
  const std::vector<std::byte> bytes = Bytes(9 << 20);
  const ImageKey key = KeyOf(bytes, [](size_t count, const std::function<void(size_t)>& work) {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) threads.emplace_back(work, count - 1 - i);
    for (std::thread& thread : threads) thread.join();
  });
  EXPECT_EQ(key, KeyOf(bytes));
}

TEST(ImageKey, IsReadAsItWasWritten) {
  const ImageKey key = KeyOf(Bytes(10));
  ImageKey read;
  EXPECT_TRUE(ImageKey::FromHex(key.Hex(), &read));
  EXPECT_EQ(read, key);
  std::string capitals = key.Hex();
  for (char& letter : capitals) letter = static_cast<char>(toupper(letter));
  for (const std::string& bad : {std::string(), key.Hex().substr(1), key.Hex() + "0", "g" + key.Hex().substr(1), capitals,
                                 "-1" + key.Hex().substr(2), " 1" + key.Hex().substr(2)}) {
    EXPECT_FALSE(ImageKey::FromHex(bad, &read)) << bad;
  }
}

}  // namespace
}  // namespace tessera

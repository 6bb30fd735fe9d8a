// What every decoder of control messages must stand.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <random>
#include <vector>

#include "protocol/wire/encoder.h"
#include "protocol/wire/handshake.h"

namespace tessera {

template <typename Message>
std::vector<std::byte> Encoded(const Message& message) {
  Encoder out(kControlMessageBytesMax);
  message.Encode(out);
  EXPECT_TRUE(out.ok());
  return {out.bytes().begin(), out.bytes().end()};
}

// Every prefix is refused; random damage is either refused or gives a message that is within the bounds (and that the
// sanitizers have no complaint about).
template <typename Message>
void Torture(const Message& message) {
  const std::vector<std::byte> whole = Encoded(message);
  ASSERT_TRUE(Message::Decode(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(Message::Decode(prefix).ok()) << "prefix of " << size;
  }
  std::vector<std::byte> longer = whole;
  longer.resize(longer.size() + 8);
  EXPECT_FALSE(Message::Decode(longer).ok());
  std::mt19937 random(1);
  size_t refused = 0;
  constexpr int kRounds = 20'000;
  for (int i = 0; i < kRounds; ++i) {
    std::vector<std::byte> damaged = whole;
    for (uint32_t n = 1 + random() % 4; n > 0; --n) damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    refused += !Message::Decode(damaged).ok();
  }
  EXPECT_GT(refused, kRounds / 100);
}

}  // namespace tessera

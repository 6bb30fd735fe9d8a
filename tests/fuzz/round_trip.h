// Targets that are one of several messages. Input: u8 which, then its bytes.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "protocol/wire/encoder.h"
#include "tests/fuzz/target.h"

namespace tessera::fuzz {

using Checker = void (*)(std::span<const std::byte>);

template <typename Message>
Input Encoded(const Message& message) {
  Encoder out;
  message.Encode(out);
  return Input(out.bytes().begin(), out.bytes().end());
}

// What was accepted means the same when it is sent on.
template <typename Message>
void CheckSentOn(const Message& message) {
  const Input again = Encoded(message);
  auto decoded = Message::Decode(again);
  FUZZ_CHECK(decoded.ok());
  FUZZ_CHECK(Encoded(*decoded) == again);
}

// Gives the bytes, in memory of exactly their size, to the checker that the input names.
inline void RunOneOf(std::span<const Checker> checkers, std::span<const std::byte> input) {
  Reader reader(input);
  const Checker check = checkers[reader.Take<uint8_t>() % checkers.size()];
  const auto rest = reader.Rest();
  check(Input(rest.begin(), rest.end()));
}

// A seed for each checker, in their order.
inline std::vector<Input> SeedsOf(std::span<const Input> messages) {
  std::vector<Input> seeds;
  for (size_t i = 0; i < messages.size(); ++i) {
    seeds.push_back(Writer().Put(static_cast<uint8_t>(i)).Bytes(messages[i]).input());
  }
  return seeds;
}

}  // namespace tessera::fuzz

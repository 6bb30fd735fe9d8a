// What every file of this directory defines: one target, and what it starts from. replay_test.cc and libfuzzer.cc drive
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace tessera::fuzz {

using Input = std::vector<std::byte>;

// Feeds one input to the code under test, which must neither crash, hang, nor keep anything of it. Inputs come one
// after the other, on one thread. `input` is 8-aligned memory of exactly its size, so that a read beyond its end is
// seen.
void Run(std::span<const std::byte> input);

// Valid inputs: the same ones in every run.
std::vector<Input> Seeds();

// Takes an input apart; yields zeros when it has ended.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }
  template <typename T>
  T Take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const auto from = Bytes(sizeof(T));
    if (!from.empty()) std::memcpy(&value, from.data(), from.size());
    return value;
  }
  // As many of the next `size` bytes as there are.
  std::span<const std::byte> Bytes(size_t size) {
    const auto taken = rest_.first(size < rest_.size() ? size : rest_.size());
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::span<const std::byte> Rest() { return Bytes(rest_.size()); }

 private:
  std::span<const std::byte> rest_;
};

// Puts together what Reader takes apart.
class Writer {
 public:
  template <typename T>
  Writer& Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return Bytes(std::as_bytes(std::span(&value, 1)));
  }
  Writer& Bytes(std::span<const std::byte> bytes) {
    input_.insert(input_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  const Input& input() const { return input_; }

 private:
  Input input_;
};

// A property of the code under test that does not hold: ends the program, saying which.
#define FUZZ_CHECK(condition)                                                             \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)

}  // namespace tessera::fuzz

// Every generated message as the checks of message_test.cc see it. The generated files tests/<domain>_messages.cc fill
// messages with pseudo-random values and list them.
#pragma once

#include <cstddef>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/runtime/array.h"
#include "protocol/wire/decoder.h"
#include "protocol/wire/encoder.h"
#include "protocol/wire/handle.h"

namespace tessera {

// Pseudo-random values. Bytes, text and elements live as long as the source.
class ValueSource {
 public:
  // With `handles`, messages name those; else any 64 bits.
  explicit ValueSource(uint32_t seed, std::vector<HandleId> handles = {}) : handles_(std::move(handles)), random_(seed) {}

  template <typename T>
  T Pod() {
    if constexpr (std::is_same_v<T, bool>) {
      return random_() % 2 != 0;
    } else if constexpr (std::is_enum_v<T>) {
      return static_cast<T>(random_() % 2);
    } else {
      if constexpr (std::is_same_v<T, HandleId>) {
        if (!handles_.empty()) return handles_[random_() % handles_.size()];
      }
      T value;
      Fill(&value, sizeof(T));
      return value;
    }
  }
  size_t Length() { return random_() % 4; }
  std::span<const std::byte> Bytes(size_t size) {
    std::string& bytes = kept_.emplace_back(size, '\0');
    Fill(bytes.data(), size);
    return std::as_bytes(std::span(bytes));
  }
  std::string_view Text() { return kept_.emplace_back(random_() % 20, static_cast<char>('a' + random_() % 26)); }
  template <typename T>
  void Elements(size_t size, Array<T>* array) {
    T* elements = array->Allocate(size);
    for (size_t i = 0; i < size; ++i) elements[i] = Pod<T>();
  }

 private:
  void Fill(void* to, size_t size) {
    for (size_t i = 0; i < size; ++i) static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(random_());
  }

  const std::vector<HandleId> handles_;
  std::mt19937 random_;
  std::deque<std::string> kept_;
};

// One kind of message without its type, so that the checks are compiled once.
struct TestedMessage {
  const char* name;
  uint32_t id;  // of the call
  // Encodes a message filled from `source` and returns its text.
  std::string (*encode)(ValueSource& source, Encoder& out);
  // Decodes; the text of the message, or "" when it was refused.
  std::string (*decode)(Decoder& in);
};

template <typename Message>
void Add(const char* name, std::vector<TestedMessage>* messages) {
  messages->push_back({name, Message::kId,
                       [](ValueSource& source, Encoder& out) {
                         Message message;
                         Fill(source, message);
                         message.Encode(out);
                         return message.ToString();
                       },
                       [](Decoder& in) {
                         Message message;
                         return message.Decode(in) ? message.ToString() : std::string();
                       }});
}

std::vector<TestedMessage> AllMessages();

}  // namespace tessera

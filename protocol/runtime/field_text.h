// Messages as text for debug logs and tests: `cuMemAlloc_v2Request{dptr=3, bytesize=4096}`. Structs and bytes in hex.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "protocol/runtime/array.h"
#include "protocol/wire/handle.h"

namespace tessera {

class FieldText {
 public:
  explicit FieldText(std::string_view message);

  template <typename T>
  void AddPod(std::string_view name, const T& value) {
    Name(name);
    Value(value);
  }
  void AddHandle(std::string_view name, HandleId id) { AddPod(name, id); }
  void AddBytes(std::string_view name, std::span<const std::byte> bytes);
  void AddString(std::string_view name, std::string_view text);
  void AddStrings(std::string_view name, const std::vector<std::string_view>& texts);
  template <typename T>
  void AddArray(std::string_view name, const Array<T>& array) {
    Name(name);
    Open();
    for (const T& element : array) {
      Value(element);
      Separate();
    }
    Close();
  }
  // The finished text; ends the use of this object.
  std::string Take();

 private:
  template <typename T>
  void Value(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      Unsigned(value);
    } else if constexpr (std::is_same_v<T, HandleId>) {
      Unsigned(value.value());
    } else if constexpr (std::is_enum_v<T> || (std::is_integral_v<T> && std::is_signed_v<T>)) {
      Signed(static_cast<long long>(value));
    } else if constexpr (std::is_integral_v<T>) {
      Unsigned(value);
    } else {
      Hex(&value, sizeof(T));
    }
  }
  void Name(std::string_view name);
  void Open();
  void Separate();
  void Close();
  void Signed(long long value);
  void Unsigned(unsigned long long value);
  void Hex(const void* data, size_t size);

  std::string text_;
  bool first_ = true;
};

}  // namespace tessera

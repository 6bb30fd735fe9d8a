// What a call's record is filled with: a value by the name of the field.
//
// Handles are live objects of their kind where nothing else is given. Of every other field a value must be given, by this class
// (what fields of that name mostly are) or by the way in which a call is driven (ways.h): missing() names those without.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "protocol/runtime/array.h"
#include "protocol/wire/handle.h"

namespace tessera {

class Arguments {
 public:
  // With what fields of these names mostly are.
  Arguments();

  // The live object of a kind.
  static HandleId Live(HandleKind kind) { return HandleId::Of(0, kind, 1, static_cast<uint32_t>(kind)); }

  // A number for a field of whatever width, or a struct.
  template <typename T>
  void Give(const std::string& name, const T& value) {
    if constexpr (std::is_integral_v<T> || std::is_enum_v<T>) {
      GiveList(name, std::vector{static_cast<uint64_t>(value)});
    } else {
      GiveList(name, std::vector{value});
    }
  }
  // The elements of a list, or bytes.
  template <typename T>
  void GiveList(const std::string& name, const std::vector<T>& elements) {
    const auto bytes = std::as_bytes(std::span(elements));
    values_[name].assign(bytes.begin(), bytes.end());
  }
  void GiveHandle(const std::string& name, HandleId handle) { handles_[name] = {handle}; }
  void GiveNoHandles(const std::string& name) { handles_[name] = {}; }

  // For generated code: the value of a field.
  void Handle(const std::string& name, HandleKind kind, HandleId* field);
  void Handles(const std::string& name, HandleKind kind, Array<HandleId>* field);
  template <typename T>
  void Plain(const std::string& name, T* field) {
    const std::vector<std::byte>& value = Value(name);
    // Numbers are kept in their widest form, little-endian.
    if (value.size() != sizeof(T) && (value.size() != sizeof(uint64_t) || sizeof(T) > sizeof(uint64_t))) missing_.insert(name);
    if (!value.empty()) std::memcpy(static_cast<void*>(field), value.data(), std::min(sizeof(T), value.size()));
  }
  template <typename T>
  void Elements(const std::string& name, Array<T>* field) {
    const std::vector<std::byte>& value = Value(name);
    if (value.size() % sizeof(T) != 0) missing_.insert(name);
    T* const elements = field->Allocate(value.size() / sizeof(T));
    if (!field->empty()) std::memcpy(static_cast<void*>(elements), value.data(), field->size_bytes());
  }
  void Bytes(const std::string& name, std::span<const std::byte>* field) { *field = Value(name); }
  void Text(const std::string& name, std::string_view* field);
  void Texts(const std::string& name, std::vector<std::string_view>* field) { Text(name, &field->emplace_back()); }

  // Whether the call has a field of this name.
  bool Has(const std::string& name) const { return fields_.contains(name); }
  // The fields that had no value, or one of another size than theirs.
  std::string missing() const;

 private:
  const std::vector<std::byte>& Value(const std::string& name);

  std::map<std::string, std::vector<std::byte>> values_;
  std::map<std::string, std::vector<HandleId>> handles_;
  std::set<std::string> fields_;
  std::set<std::string> missing_;
};

}  // namespace tessera

#include "tests/server/worker/gated/arguments.h"

#include "tests/server/worker/gated/places.h"

namespace tessera {

Arguments::Arguments() {
  // Of launches: one kernel without parameters.
  for (const char* name : {"grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"}) Give(name, 1);
  for (const char* name : {"shared_bytes", "cooperative"}) Give(name, 0);
  for (const char* name : {"parameters", "attributes"}) GiveList(name, std::vector<std::byte>());
  GiveList("shapes", std::vector<uint32_t>{1, 1, 1, 1, 1, 1, 0});
  GiveList("parameter_bytes", std::vector<uint32_t>{0});
  // Of work with memory: a piece of a device's.
  for (const char* name : {"dst", "src", "addr"}) Give(name, DeviceMemory());
  for (const char* name : {"bytes", "bytesize", "size", "src_bytes"}) Give(name, kBytes);
  for (const char* name : {"width", "height"}) Give(name, 4);
  Give("element_bytes", 4);
  Give("pitch", 64);
  // What is 0 where nothing is asked for.
  for (const char* name : {"flags", "Flags", "value", "mark", "form", "repeats", "discard"}) Give(name, 0);
  for (const char* name : {"ahead", "written_address", "written_bytes"}) Give(name, 0);
  GiveList("edges", std::vector<std::byte>());
  // Of the client's, who goes by numbers.
  for (const char* name : {"function", "delivery"}) Give(name, 1);
}

const std::vector<std::byte>& Arguments::Value(const std::string& name) {
  fields_.insert(name);
  const auto [value, is_new] = values_.try_emplace(name);
  if (is_new) missing_.insert(name);
  return value->second;
}

void Arguments::Handle(const std::string& name, HandleKind kind, HandleId* field) {
  Array<HandleId> handles;
  Handles(name, kind, &handles);
  if (handles.size() == 1) *field = handles[0];
}

void Arguments::Handles(const std::string& name, HandleKind kind, Array<HandleId>* field) {
  fields_.insert(name);
  const std::vector<HandleId>& handles = handles_.try_emplace(name, std::vector{Live(kind)}).first->second;
  std::copy(handles.begin(), handles.end(), field->Allocate(handles.size()));
}

void Arguments::Text(const std::string& name, std::string_view* field) {
  const std::vector<std::byte>& value = Value(name);
  *field = {reinterpret_cast<const char*>(value.data()), value.size()};
}

std::string Arguments::missing() const {
  std::string names;
  for (const std::string& name : missing_) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace tessera

#include "protocol/base/visible_devices.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace tessera {
namespace {

constexpr std::array<std::string_view, 2> kUuidForms = {"GPU-", "MIG-"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number that an entry begins with; less than 0: none, or a negative one.
int64_t NumberOf(std::string_view entry) {
  constexpr int64_t kMax = INT32_MAX;
  size_t at = std::min(entry.find_first_not_of(" \t\n\v\f\r"), entry.size());
  const bool negative = at < entry.size() && entry[at] == '-';
  if (at < entry.size() && (entry[at] == '-' || entry[at] == '+')) ++at;
  if (at == entry.size() || !IsDigit(entry[at])) return -1;
  int64_t number = 0;
  for (; at < entry.size() && IsDigit(entry[at]); ++at) number = std::min(number * 10 + (entry[at] - '0'), kMax);
  return negative ? -number : number;
}

// How the UUIDs of a list begin; empty: it is a list of numbers.
std::string_view FormOf(std::string_view list) {
  for (const std::string_view form : kUuidForms) {
    if (list.starts_with(form)) return form;
  }
  return {};
}

std::optional<size_t> Named(std::string_view entry, std::string_view form, std::span<const std::string> uuids) {
  if (form.empty()) {
    const int64_t number = NumberOf(entry);
    if (number < 0 || static_cast<size_t>(number) >= uuids.size()) return std::nullopt;
    return static_cast<size_t>(number);
  }
  if (!entry.starts_with(form)) return std::nullopt;
  // "MIG-" stands before the UUID of any device.
  const bool any = form != kUuidForms[0];
  std::optional<size_t> found;
  for (size_t i = 0; i < uuids.size(); ++i) {
    const std::string_view uuid = uuids[i];
    if (any ? !uuid.substr(form.size()).starts_with(entry.substr(form.size())) : !uuid.starts_with(entry)) continue;
    if (found) return std::nullopt;  // it must be clear which
    found = i;
  }
  return found;
}

}  // namespace

VisibleDevices SelectVisibleDevices(std::string_view list, std::span<const std::string> uuids) {
  const std::string_view form = FormOf(list);
  VisibleDevices visible;
  while (!visible.repeats) {
    const size_t comma = list.find(',');
    const std::optional<size_t> device = Named(list.substr(0, comma), form, uuids);
    if (!device) break;
    visible.repeats = std::find(visible.numbers.begin(), visible.numbers.end(), *device) != visible.numbers.end();
    visible.numbers.push_back(*device);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return visible;
}

bool WantsNoDevice(std::string_view list) {
  return list.empty() || (list.starts_with('-') && NumberOf(list.substr(0, list.find(','))) < 0);
}

}  // namespace tessera

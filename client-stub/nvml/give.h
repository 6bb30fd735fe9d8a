// One reading, or several in a row, as the integers that a function of NVML has room for. The order of what can be wrong is
// NVML's: not initialised, no such device, no room for the answer, not supported.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "client-stub/nvml/library.h"

namespace tessera::nvml {

// What was asked of one device; `state` holds it.
struct Readings {
  std::shared_ptr<const DeviceState> state;
  const std::map<Reading, uint64_t>* values = nullptr;

  // Null when the server does not tell it.
  const uint64_t* Find(Reading reading) const {
    const auto found = values->find(reading);
    return found == values->end() ? nullptr : &found->second;
  }
};
// NVML_ERROR_NOT_SUPPORTED when the server tells nothing of the device.
inline nvmlReturn_t Ask(nvmlDevice_t handle, ServerQuery::Ask ask, Readings* readings, bool fresh = false) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = State(ask, found.index, fresh, &readings->state); result != NVML_SUCCESS) return result;
  if (found.index >= readings->state->readings.size()) return NVML_ERROR_NOT_SUPPORTED;
  readings->values = &readings->state->readings[found.index];
  return NVML_SUCCESS;
}

// `outs`: where the readings go, beginning with `first`. All of them are written, or none.
template <typename Number>
nvmlReturn_t GiveAll(nvmlDevice_t handle, ServerQuery::Ask ask, Reading first, std::span<Number* const> outs) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  for (const Number* out : outs) {
    if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  }
  Readings readings;
  if (const nvmlReturn_t result = Ask(handle, ask, &readings); result != NVML_SUCCESS) return result;
  for (uint32_t i = 0; i < outs.size(); ++i) {
    if (readings.Find(first + i) == nullptr) return NVML_ERROR_NOT_SUPPORTED;
  }
  for (uint32_t i = 0; i < outs.size(); ++i) *outs[i] = static_cast<Number>(*readings.Find(first + i));
  return NVML_SUCCESS;
}

template <typename Number, typename... Numbers>
nvmlReturn_t Give(nvmlDevice_t handle, ServerQuery::Ask ask, Reading first, Number* out, Numbers*... more) {
  Number* const outs[] = {out, more...};
  return GiveAll<Number>(handle, ask, first, outs);
}

// Into `n` numbers in a row.
template <size_t n, typename Number>
nvmlReturn_t GiveRow(nvmlDevice_t handle, ServerQuery::Ask ask, Reading first, Number* row) {
  Number* outs[n];
  for (size_t i = 0; i < n; ++i) outs[i] = row == nullptr ? nullptr : row + i;
  return GiveAll<Number>(handle, ask, first, outs);
}

// NVML_ERROR_INSUFFICIENT_SIZE when the text and its end do not fit.
nvmlReturn_t GiveText(nvmlDevice_t handle, Reading reading, char* out, unsigned length);

}  // namespace tessera::nvml

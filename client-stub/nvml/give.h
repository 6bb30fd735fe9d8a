// Answers a function of NVML with one reading, or with several consecutive ones, as integers of the type that it has room for.
// Errors are checked in NVML's order: NVML_ERROR_UNINITIALIZED, NVML_ERROR_INVALID_ARGUMENT for no such device or a null pointer,
// NVML_ERROR_GPU_IS_LOST if the server does not answer, then what its NVML said, which is mostly NVML_ERROR_NOT_SUPPORTED. Any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "client-stub/nvml/library.h"

namespace tessera::nvml {

// The answer about one device. `state` owns what `values` points to.
struct Readings {
  std::shared_ptr<const DeviceState> state;
  const std::map<Reading, uint64_t>* values = nullptr;

  // Null: the server does not tell this reading.
  const uint64_t* Find(Reading reading) const {
    const auto found = values->find(reading);
    return found == values->end() ? nullptr : &found->second;
  }
  // Why it does not tell it.
  nvmlReturn_t WhyNot(Reading reading) const {
    const uint64_t* refused = Find(reading + kRefusedReading);
    return refused == nullptr || *refused == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : static_cast<nvmlReturn_t>(*refused);
  }
};
// Asks the server about the device (or takes the answer of a moment ago, see State()). NVML_ERROR_NOT_SUPPORTED: it tells
// nothing.
inline nvmlReturn_t Ask(nvmlDevice_t handle, ServerQuery::Ask ask, Readings* readings, bool fresh = false) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (const nvmlReturn_t result = State(ask, found.index, fresh, &readings->state); result != NVML_SUCCESS) return result;
  if (found.index >= readings->state->readings.size()) return NVML_ERROR_NOT_SUPPORTED;
  readings->values = &readings->state->readings[found.index];
  return NVML_SUCCESS;
}

// Writes the readings from `first` on, one to each of `outs`. All of them are written, or none.
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
    if (readings.Find(first + i) == nullptr) return readings.WhyNot(first);
  }
  for (uint32_t i = 0; i < outs.size(); ++i) *outs[i] = static_cast<Number>(*readings.Find(first + i));
  return NVML_SUCCESS;
}

// As GiveAll(), to pointers of one type.
template <typename Number, typename... Numbers>
nvmlReturn_t Give(nvmlDevice_t handle, ServerQuery::Ask ask, Reading first, Number* out, Numbers*... more) {
  Number* const outs[] = {out, more...};
  return GiveAll<Number>(handle, ask, first, outs);
}

// As GiveAll(), to the `n` numbers that `row` points to.
template <size_t n, typename Number>
nvmlReturn_t GiveRow(nvmlDevice_t handle, ServerQuery::Ask ask, Reading first, Number* row) {
  Number* outs[n];
  for (size_t i = 0; i < n; ++i) outs[i] = row == nullptr ? nullptr : row + i;
  return GiveAll<Number>(handle, ask, first, outs);
}

// Writes a reading that is a text. NVML_ERROR_INSUFFICIENT_SIZE: the text and its NUL do not fit into `length` bytes.
nvmlReturn_t GiveText(nvmlDevice_t handle, Reading reading, char* out, unsigned length);

}  // namespace tessera::nvml

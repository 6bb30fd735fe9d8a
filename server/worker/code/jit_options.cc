#include "server/worker/code/jit_options.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// Options whose value is a number, in or out.
bool IsNumber(uint32_t option) {
  switch (option) {
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_THREADS_PER_BLOCK:
    case CU_JIT_WALL_TIME:
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET_FROM_CUCONTEXT:
    case CU_JIT_TARGET:
    case CU_JIT_FALLBACK_STRATEGY:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_LOG_VERBOSE:
    case CU_JIT_GENERATE_LINE_INFO:
    case CU_JIT_CACHE_MODE:
    case CU_JIT_FAST_COMPILE:
    case CU_JIT_LTO:
    case CU_JIT_FTZ:
    case CU_JIT_PREC_DIV:
    case CU_JIT_PREC_SQRT:
    case CU_JIT_FMA:
    case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
    case CU_JIT_POSITION_INDEPENDENT_CODE:
    case CU_JIT_MIN_CTA_PER_SM:
    case CU_JIT_MAX_THREADS_PER_BLOCK:
    case CU_JIT_OVERRIDE_DIRECTIVE_VALUES: return true;
    default: return false;
  }
}

}  // namespace

bool JitOptions::Set(std::span<const uint32_t> options, std::span<const uint64_t> values) {
  if (options.size() != values.size() || options.size() > kOptionsMax) return false;
  uint64_t info_bytes = 0;
  uint64_t error_bytes = 0;
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) info_bytes = std::min(values[i], kLogBytesMax);
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) error_bytes = std::min(values[i], kLogBytesMax);
  }
  info_log_.assign(info_bytes, '\0');
  error_log_.assign(error_bytes, '\0');
  for (size_t i = 0; i < options.size(); ++i) {
    void* value = nullptr;
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER: value = info_log_.data(); break;
      case CU_JIT_ERROR_LOG_BUFFER: value = error_log_.data(); break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: value = reinterpret_cast<void*>(info_bytes); break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: value = reinterpret_cast<void*>(error_bytes); break;
      default:
        if (!IsNumber(options[i])) return false;
        value = reinterpret_cast<void*>(values[i]);
        break;
    }
    options_.push_back(static_cast<CUjit_option>(options[i]));
    values_.push_back(value);
  }
  return true;
}

const void* const* JitOptions::Value(CUjit_option option) const {
  for (size_t i = 0; i < options_.size(); ++i) {
    if (options_[i] == option) return &values_[i];
  }
  return nullptr;
}

float JitOptions::wall_time_ms() const {
  // The driver stores a float into the low half of the option's value.
  float wall_time = 0;
  if (const void* const* value = Value(CU_JIT_WALL_TIME)) std::memcpy(&wall_time, value, sizeof(wall_time));
  return wall_time;
}

uint32_t JitOptions::threads_per_block() const {
  uint32_t threads = 0;
  if (const void* const* value = Value(CU_JIT_THREADS_PER_BLOCK)) std::memcpy(&threads, value, sizeof(threads));
  return threads;
}

std::string JitOptions::LogText(const std::vector<char>& log, CUjit_option size_option) const {
  // The driver replaces the size by the number of bytes it wrote; never trusted beyond the buffer.
  uint32_t written = 0;
  if (const void* const* value = Value(size_option)) std::memcpy(&written, value, sizeof(written));
  const std::string_view text(log.data(), std::min<size_t>(written, log.size()));
  return std::string(text.substr(0, text.find('\0')));
}

}  // namespace tessera

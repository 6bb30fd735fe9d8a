// The functions of NVML that tell readings as they came from the server: one for each line of device_readings.def, except those
// of CHOICE_STRUCT32 (devices.cc) and FORM32 (forms.cc).

#include "client-stub/nvml/give.h"
#include "client-stub/nvml/nvml_abi.h"

namespace tessera::nvml {
namespace {

// The structs of VERSIONED32 and VERSIONED64 (device_readings.def).
template <size_t n>
struct Versioned32 {
  unsigned version;
  unsigned word[n];
};
template <size_t n>
struct Versioned64 {
  unsigned version;
  unsigned long long word[n];
};

// `Struct` is one of the two above. There is only version 1 of each.
template <size_t n, typename Struct>
nvmlReturn_t GiveVersioned(nvmlDevice_t handle, ServerQuery::Ask ask, Reading first, Struct* out) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (out->version != StructVersion<Struct>(1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return GiveRow<n>(handle, ask, first, out->word);
}

// The answer of a function with choices to a choice that does not exist.
nvmlReturn_t NoSuchChoice(nvmlDevice_t handle) {
  Found found;
  const nvmlReturn_t result = Find(handle, &found);
  return result == NVML_SUCCESS ? NVML_ERROR_INVALID_ARGUMENT : result;
}

}  // namespace

nvmlReturn_t GiveText(nvmlDevice_t handle, Reading reading, char* out, unsigned length) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Readings readings;
  if (const nvmlReturn_t result = Ask(handle, ServerQuery::Ask::kDetails, &readings); result != NVML_SUCCESS) return result;
  const auto text = readings.state->texts.find(reading);
  return text == readings.state->texts.end() ? NVML_ERROR_NOT_SUPPORTED : CopyText(text->second, out, length);
}

}  // namespace tessera::nvml

using namespace tessera::nvml;
using tessera::Reading;
using AskFor = tessera::ServerQuery::Ask;

#define READING_NUMBER(ask, number, name, function)                       \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* out) { \
    return Give(handle, AskFor::k##ask, Reading::name, out);              \
  }
#define READING_LARGE(ask, number, name, function)                                  \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned long long* out) { \
    return Give(handle, AskFor::k##ask, Reading::name, out);                        \
  }
#define READING_PAIR(ask, number, name, function)                                    \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* a, unsigned* b) { \
    return Give(handle, AskFor::k##ask, Reading::name, a, b);                        \
  }
#define READING_TRIPLE(ask, number, name, function)                                               \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* a, unsigned* b, unsigned* c) { \
    return Give(handle, AskFor::k##ask, Reading::name, a, b, c);                                  \
  }
#define READING_QUADRUPLE(ask, number, name, function)                                                         \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* a, unsigned* b, unsigned* c, unsigned* d) { \
    return Give(handle, AskFor::k##ask, Reading::name, a, b, c, d);                                            \
  }
#define READING_STRUCT32(ask, number, name, function, n)                    \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* words) { \
    return GiveRow<n>(handle, AskFor::k##ask, Reading::name, words);        \
  }
#define READING_STRUCT64(ask, number, name, function, n)                              \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned long long* words) { \
    return GiveRow<n>(handle, AskFor::k##ask, Reading::name, words);                  \
  }
#define READING_VERSIONED32(ask, number, name, function, n)                     \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, Versioned32<n>* out) { \
    return GiveVersioned<n>(handle, AskFor::k##ask, Reading::name, out);        \
  }
#define READING_VERSIONED64(ask, number, name, function, n)                     \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, Versioned64<n>* out) { \
    return GiveVersioned<n>(handle, AskFor::k##ask, Reading::name, out);        \
  }
#define READING_CHOICE(ask, number, name, function, n)                                    \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned which, unsigned* out) { \
    if (which >= n) return NoSuchChoice(handle);                                          \
    return Give(handle, AskFor::k##ask, Reading::name + which, out);                      \
  }
#define READING_CHOICE_PAIR64(ask, number, name, function, n)                                         \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned which, unsigned long long* words) { \
    if (which >= n) return NoSuchChoice(handle);                                                      \
    return GiveRow<2>(handle, AskFor::k##ask, Reading::name + 2 * which, words);                      \
  }
#define READING_TWO_CHOICES(ask, number, name, function, n, m, l)                                             \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned a, unsigned b, unsigned long long* words) { \
    if (a >= n || b >= m) return NoSuchChoice(handle);                                                        \
    return GiveRow<l>(handle, AskFor::k##ask, Reading::name + (a * m + b) * l, words);                        \
  }
#define READING_THREE_CHOICES(ask, number, name, function, n, m, l)                                                     \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned a, unsigned b, unsigned c, unsigned long long* out) { \
    if (a >= n || b >= m || c >= l) return NoSuchChoice(handle);                                                        \
    return Give(handle, AskFor::k##ask, Reading::name + ((a * m + b) * l + c), out);                                    \
  }
#define READING_TWO_CHOICES32(ask, number, name, function, n, m)                                  \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned a, unsigned b, unsigned* out) { \
    if (a >= n || b >= m) return NoSuchChoice(handle);                                            \
    return Give(handle, AskFor::k##ask, Reading::name + (a * m + b), out);                        \
  }
#define READING_TEXT(ask, number, name, function)                                      \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, char* out, unsigned length) { \
    return GiveText(handle, Reading::name, out, length);                               \
  }
#define READING_CHOICE_TEXT(ask, number, name, function, n)                                            \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned which, char* out, unsigned length) { \
    if (which >= n) return NoSuchChoice(handle);                                                       \
    return GiveText(handle, Reading::name + which, out, length);                                       \
  }
#include "protocol/wire/device_readings.def"

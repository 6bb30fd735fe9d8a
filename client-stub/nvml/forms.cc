// The functions of NVML that take one of several structs. The version at the beginning of the struct tells which one it is.

#include <string_view>
#include <vector>

#include "client-stub/nvml/give.h"
#include "client-stub/nvml/nvml_abi.h"

namespace {

using tessera::Reading;
using tessera::nvml::Find;
using tessera::nvml::Found;
using tessera::nvml::GiveAll;
using AskFor = tessera::ServerQuery::Ask;

struct Form {
  std::string_view function;
  AskFor ask;
  Reading first;
  unsigned version;  // the first word of the struct
  size_t words;      // after it
};
constexpr Form kForms[] = {
#define READING_FORM32(ask, number, name, function, version, n) \
  {#function, AskFor::k##ask, Reading::name, static_cast<unsigned>(4 * (1 + n)) | version << 24, n},
#include "protocol/wire/device_readings.def"
};

// NVML_ERROR_NOT_SUPPORTED: the server's NVML does not know this struct, although it may know an older one.
nvmlReturn_t GiveForm(std::string_view function, nvmlDevice_t handle, unsigned* out) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (out == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  for (const Form& form : kForms) {
    if (form.function != function || form.version != *out) continue;
    std::vector<unsigned*> outs;
    for (size_t i = 0; i < form.words; ++i) outs.push_back(out + 1 + i);
    return GiveAll<unsigned>(handle, form.ask, form.first, outs);
  }
  return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

}  // namespace

#define FORMS(function) \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* out) { return GiveForm(#function, handle, out); }
FORMS(nvmlDeviceGetGpuFabricInfoV)
FORMS(nvmlDeviceGetNvLinkInfo)
FORMS(nvmlDeviceGetPlatformInfo)

#include "server/driver/loader.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "generated/driver_names.h"
#include "protocol/base/log.h"
#include "server/driver/driver_directories.h"
#include "server/driver/stub_file.h"

namespace tessera {
namespace {

constexpr char kRealName[] = "libcuda.so.1";
constexpr char kEmulatorName[] = "libtessera-emulator.so";

std::string EmulatorPath() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return kEmulatorName;
  return (program.parent_path().parent_path() / "lib" / kEmulatorName).string();
}

// A loaded library, or the sentence that says why not.
struct Opened {
  void* library = nullptr;
  std::string path;
  std::string error;
};

std::string DlError() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error";
}

Opened Open(const std::string& name) {
  // A path is looked at before it is loaded; what a plain name leads to is known only afterwards.
  if (name.find('/') != std::string::npos && IsStubFile(name)) return {nullptr, name, name + ": is Tessera's client library"};
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, name, DlError()};
  link_map* map = nullptr;
  std::string path = name;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0') path = map->l_name;
  if (IsStubFile(path)) return {nullptr, path, path + ": is Tessera's client library"};
  return {library, path, ""};
}

std::vector<std::string> Candidates(const std::string& where) {
  if (where == "emulator") return {EmulatorPath()};
  if (!where.empty() && where != "real") return {where};
  std::vector<std::string> names = {kRealName};
  for (const char* directory : kDriverDirectories) names.push_back(fmt::format("{}/{}", directory, kRealName));
  return names;
}

}  // namespace

Result<std::unique_ptr<Driver>> Driver::Load(const std::string& where) {
  std::string tried;
  for (const std::string& name : Candidates(where)) {
    const Opened opened = Open(name);
    if (opened.library == nullptr) {
      tried += (tried.empty() ? "" : "; ") + opened.error;
      continue;
    }
    auto driver = std::unique_ptr<Driver>(new Driver());
    driver->path_ = opened.path;
    for (const DriverName& entry : DriverNames()) {
      void* symbol = dlsym(opened.library, entry.name);
      if (symbol == nullptr) ++driver->missing_count_;
      std::memcpy(reinterpret_cast<char*>(&driver->table_) + entry.offset, &symbol, sizeof(symbol));
    }
    if (driver->table_.cuInit == nullptr || driver->table_.cuDeviceGetCount == nullptr) {
      return Status(StatusCode::kInvalidArgument, opened.path + ": no CUDA driver, it has no cuInit");
    }
    LogInfo("driver {} loaded, {} of {} functions missing", driver->path_, driver->missing_count_, DriverNames().size());
    return driver;
  }
  return Status(StatusCode::kNotFound, fmt::format("no {} found: {}", where == "emulator" ? "emulator" : "CUDA driver", tried));
}

Result<int> Driver::CountDevices() const {
  const auto failed = [this](const char* call, CUresult result) {
    const char* text = nullptr;
    if (table_.cuGetErrorString == nullptr || table_.cuGetErrorString(result, &text) != CUDA_SUCCESS) text = nullptr;
    const char* selection = result == CUDA_ERROR_NO_DEVICE ? getenv("CUDA_VISIBLE_DEVICES") : nullptr;
    return Status(
        StatusCode::kNotFound,
        fmt::format(
            "no usable GPU: {} of {} failed with {} ({}){}", call, path_, static_cast<int>(result),
            text != nullptr ? text : "no description",
            selection != nullptr ? fmt::format("; does CUDA_VISIBLE_DEVICES={} name one that there is?", selection) : ""));
  };
  if (const CUresult result = table_.cuInit(0); result != CUDA_SUCCESS) return failed("cuInit", result);
  int count = 0;
  if (const CUresult result = table_.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return failed("cuDeviceGetCount", result);
  }
  if (count < 1) return Status(StatusCode::kNotFound, "no usable GPU: " + path_ + " reports no device");
  return count;
}

}  // namespace tessera

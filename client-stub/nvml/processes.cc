#include "client-stub/nvml/processes.h"

#include <fcntl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "client-stub/nvml/nvml_abi.h"
#include "protocol/base/unique_fd.h"

namespace tessera::nvml {

nvmlReturn_t ReadUses(nvmlDevice_t handle, bool loads, std::vector<ServerReport::Use>* uses) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  std::shared_ptr<const DeviceState> state;
  const auto ask = loads ? ServerQuery::Ask::kDetails : ServerQuery::Ask::kState;
  if (const nvmlReturn_t result = State(ask, found.index, true, &state); result != NVML_SUCCESS) return result;
  for (const ServerReport::Use& use : state->uses) {
    if (use.device == found.index) uses->push_back(use);
  }
  return NVML_SUCCESS;
}

namespace {

// The session whose client has this pid, if a server shows it to this user.
std::optional<ServerReport::Session> SessionOf(unsigned pid) {
  const std::shared_ptr<const DeviceList> list = List();
  for (size_t device = 0; list != nullptr && device < list->devices.size(); ++device) {
    if (list->FirstOfServer(device) != device) continue;  // one answer is about all devices of a server
    std::shared_ptr<const DeviceState> state;
    if (State(ServerQuery::Ask::kState, device, false, &state) != NVML_SUCCESS) continue;
    const auto found = std::ranges::find(state->sessions, pid, &ServerReport::Session::pid);
    if (found != state->sessions.end()) return *found;
  }
  return std::nullopt;
}

bool IsThisHost(const std::string& name) {
  utsname own{};
  return uname(&own) == 0 && name == own.nodename;
}

}  // namespace

bool ProcessName(unsigned pid, std::string* name) {
  const std::optional<ServerReport::Session> session = SessionOf(pid);
  if (session && !IsThisHost(session->host)) {
    const std::string at = session->user.empty() ? session->host : session->user + "@" + session->host;
    *name = session->program + ", " + at + " (" + session->name + ")";
    return true;
  }
  const std::string directory = "/proc/" + std::to_string(pid);
  // A kernel thread has no command line, but it has a name.
  for (const char* file : {"/cmdline", "/comm"}) {
    const UniqueFd fd(open((directory + file).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return false;
    char text[4096];
    const ssize_t size = read(fd.get(), text, sizeof(text));
    if (size <= 0) continue;
    name->assign(text, strnlen(text, static_cast<size_t>(size)));
    if (name->ends_with('\n')) name->pop_back();
    if (!name->empty()) return true;
  }
  return false;
}

namespace {

unsigned long long BytesOf(const ServerReport::Use& use) {
  return use.used_bytes == ServerReport::Use::kUnknown ? NVML_VALUE_NOT_AVAILABLE : use.used_bytes;
}

void Put(const ServerReport::Use& use, nvmlProcessInfo_v1_t* info) { *info = {use.pid, BytesOf(use)}; }
void Put(const ServerReport::Use& use, nvmlProcessInfo_v2_t* info) {
  *info = {use.pid, BytesOf(use), NVML_NO_INSTANCE, NVML_NO_INSTANCE};
}
void Put(const ServerReport::Use& use, nvmlProcessDetail_v1_t* detail) {
  *detail = {use.pid, BytesOf(use), NVML_NO_INSTANCE, NVML_NO_INSTANCE, 0};
}
void Put(const ServerReport::Use& use, nvmlProcessUtilizationSample_t* sample) {
  *sample = {use.pid,
             use.load.time_us,
             use.load.sm_percent,
             use.load.memory_percent,
             use.load.encoder_percent,
             use.load.decoder_percent};
}

// There is room for `*count` elements; `*count` becomes the number of processes. Too little room is NVML_ERROR_INSUFFICIENT_SIZE,
// as in NVML.
template <typename Info>
nvmlReturn_t PutAll(const std::vector<ServerReport::Use>& uses, unsigned* count, Info* infos) {
  const size_t room = infos == nullptr ? 0 : *count;
  for (size_t i = 0; i < std::min(room, uses.size()); ++i) Put(uses[i], &infos[i]);
  *count = static_cast<unsigned>(uses.size());
  return uses.size() <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

template <typename Info>
nvmlReturn_t Compute(nvmlDevice_t handle, unsigned* count, Info* infos) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<ServerReport::Use> uses;
  if (const nvmlReturn_t result = ReadUses(handle, false, &uses); result != NVML_SUCCESS) return result;
  return PutAll(uses, count, infos);
}

// No process: forwarded programs draw nothing, and are no clients of MPS.
nvmlReturn_t Nobody(nvmlDevice_t handle, unsigned* count) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

}  // namespace
}  // namespace tessera::nvml

using namespace tessera::nvml;
using tessera::ServerReport;

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t handle, unsigned* count, nvmlProcessInfo_v1_t* infos) {
  return Compute(handle, count, infos);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t handle, unsigned* count,
                                                                 nvmlProcessInfo_v2_t* infos) {
  return Compute(handle, count, infos);
}
NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned* count,
                                                                 nvmlProcessInfo_v2_t* infos) {
  return Compute(handle, count, infos);
}

#define NOBODY(function) \
  NVML_EXPORT nvmlReturn_t function(nvmlDevice_t handle, unsigned* count, void*) { return Nobody(handle, count); }
NOBODY(nvmlDeviceGetGraphicsRunningProcesses)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v2)
NOBODY(nvmlDeviceGetGraphicsRunningProcesses_v3)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v2)
NOBODY(nvmlDeviceGetMPSComputeRunningProcesses_v3)
#undef NOBODY

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t handle, nvmlProcessDetailList_v1_t* list) {
  constexpr unsigned kCompute = 0, kModeEnd = 3;
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (list == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (list->version != StructVersion<nvmlProcessDetailList_v1_t>(1)) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (list->mode >= kModeEnd) return NVML_ERROR_INVALID_ARGUMENT;
  if (list->mode != kCompute) return Nobody(handle, &list->numProcArrayEntries);
  return Compute(handle, &list->numProcArrayEntries, list->procArray);
}

// Tells the last sample of each process, if it is later than `since_us`. NVML_ERROR_NOT_FOUND: there is none.
NVML_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle, nvmlProcessUtilizationSample_t* samples,
                                                         unsigned* count, unsigned long long since_us) {
  Found found;
  if (const nvmlReturn_t result = Find(handle, &found); result != NVML_SUCCESS) return result;
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  std::vector<ServerReport::Use> uses;
  if (const nvmlReturn_t result = ReadUses(handle, true, &uses); result != NVML_SUCCESS) return result;
  std::erase_if(uses, [since_us](const ServerReport::Use& use) { return use.load.time_us == 0 || use.load.time_us <= since_us; });
  if (uses.empty()) return NVML_ERROR_NOT_FOUND;
  return PutAll(uses, count, samples);
}

// A name that is too long is cut, as in NVML.
NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  if (List() == nullptr) return NVML_ERROR_UNINITIALIZED;
  if (name == nullptr || length == 0) return NVML_ERROR_INVALID_ARGUMENT;
  std::string whole;
  if (!ProcessName(pid, &whole)) return NVML_ERROR_NOT_FOUND;
  return CopyText(whole.substr(0, length - 1), name, length);
}

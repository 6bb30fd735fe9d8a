// Linking PTX at run time.
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "protocol/base/log.h"
#include "server/emulator/driver/code/module.h"

namespace tessera::emulator {

class LinkState {
 public:
  std::mutex mutex;
  std::vector<std::string> texts;  // guarded by mutex
  std::string linked;              // guarded by mutex
  // As natively: logs and sizes are written where cuLinkCreate was told, by every call up to cuLinkDestroy, and grow until then.
  JitOptions options;  // guarded by mutex
  std::string error;   // guarded by mutex
  const std::thread::id thread = std::this_thread::get_id();

  void Tell(const std::string& more = "") {
    error += more;
    options.WriteLogs(error, "");
  }
};

namespace {

CUresult Add(LinkState& state, CUjitInputType type, std::string_view data, const char* name) {
  if (type == CU_JIT_INPUT_PTX) {
    while (!data.empty() && data.back() == 0) data.remove_suffix(1);
    for (std::string& text : SplitLinkedText(data)) {
      std::string log;
      const std::vector<std::string> one{text};
      // What does not even parse is refused here, as natively; references between texts are settled at the end.
      const CUresult result = CheckTexts(one, &log);
      if (result == CUDA_ERROR_INVALID_PTX && log.find("not defined in any text") == std::string::npos) {
        state.Tell(log);
        return result;
      }
      state.texts.push_back(std::move(text));
    }
    state.Tell();
    return CUDA_SUCCESS;
  }
  if (type == CU_JIT_INPUT_FATBINARY) {
    Selection selection;
    std::string log;
    const std::string copy(data);
    RETURN_ON_ERROR(SelectFromMemory(copy.data(), &selection, &log));
    if (!selection.ptx_texts.empty()) {
      for (std::string& text : selection.ptx_texts) state.texts.push_back(std::move(text));
      return CUDA_SUCCESS;
    }
  }
  RETURN_IF(type < 0 || type >= CU_JIT_NUM_INPUT_TYPES, CUDA_ERROR_INVALID_VALUE);
  LogWarning("the emulator links PTX only, and input {} is machine code", name != nullptr ? name : "");
  return CUDA_ERROR_NOT_SUPPORTED;
}

// All calls of a link come from the thread that made it. Driver 580 ends the process where they do not.
CUresult CheckThread(const LinkState& state) {
  if (state.thread == std::this_thread::get_id()) return CUDA_SUCCESS;
  LogError("a link is used by another thread than the one that made it, which would end a process natively");
  return CUDA_ERROR_UNKNOWN;
}

CUresult Enter(CUlinkState handle, std::shared_ptr<LinkState>* state) {
  RETURN_ON_ERROR(CheckEntry());
  *state = GetDriver().links.Find(handle);
  RETURN_IF(*state == nullptr, CUDA_ERROR_INVALID_HANDLE);
  return CheckThread(**state);
}

}  // namespace
}  // namespace tessera::emulator

using namespace tessera::emulator;

extern "C" {

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues, CUlinkState* stateOut) {
  ContextPtr context;
  RETURN_ON_ERROR(EnterContext(&context));
  RETURN_IF(stateOut == nullptr || (numOptions != 0 && (options == nullptr || optionValues == nullptr)),
            CUDA_ERROR_INVALID_VALUE);
  auto state = std::make_shared<LinkState>();
  state->options = JitOptions(numOptions, options, optionValues);
  *stateOut = reinterpret_cast<CUlinkState>(GetDriver().links.Add(std::move(state)));
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name,
                          unsigned int numOptions, CUjit_option* options, void** optionValues) {
  std::shared_ptr<LinkState> link;
  RETURN_ON_ERROR(Enter(state, &link));
  RETURN_IF(data == nullptr || size == 0, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(link->mutex);
  return Add(*link, type, {static_cast<const char*>(data), size}, name);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path, unsigned int numOptions,
                          CUjit_option* options, void** optionValues) {
  std::shared_ptr<LinkState> link;
  RETURN_ON_ERROR(Enter(state, &link));
  RETURN_IF(path == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::ifstream file(path, std::ios::binary);
  RETURN_IF(!file, CUDA_ERROR_FILE_NOT_FOUND);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::lock_guard lock(link->mutex);
  return Add(*link, type, bytes, path);
}

CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
  std::shared_ptr<LinkState> link;
  RETURN_ON_ERROR(Enter(state, &link));
  RETURN_IF(cubinOut == nullptr, CUDA_ERROR_INVALID_VALUE);
  std::lock_guard lock(link->mutex);
  RETURN_IF(link->texts.empty(), CUDA_ERROR_INVALID_VALUE);
  std::string log;
  const CUresult result = CheckTexts(link->texts, &log);
  link->Tell(log);
  RETURN_ON_ERROR(result);
  link->linked = JoinLinkedTexts(link->texts);
  *cubinOut = link->linked.data();
  if (sizeOut != nullptr) *sizeOut = link->linked.size() + 1;  // with the NUL that ends PTX in memory
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  RETURN_ON_ERROR(CheckEntry());
  const std::shared_ptr<LinkState> link = GetDriver().links.Remove(state);
  RETURN_IF(link == nullptr, CUDA_ERROR_INVALID_HANDLE);
  RETURN_ON_ERROR(CheckThread(*link));
  std::lock_guard lock(link->mutex);
  link->Tell();
  return CUDA_SUCCESS;
}

}  // extern "C"

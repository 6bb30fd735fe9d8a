#include "client-stub/code/library_copies.h"

#include <utility>

#include "client-stub/code/function_info.h"
#include "client-stub/code/function_questions.h"
#include "client-stub/code/image_load.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/client.h"
#include "client-stub/session/context_scope.h"
#include "generated/client/library.h"
#include "protocol/base/log.h"

namespace tessera {
namespace {

// Loads a library in a context's session.
CUresult Load(const Context& context, const LibraryCopies::Image& image, HandleId* library) {
  BasicCall call(kInfo_cuLibraryLoadData, context);
  if (!call.ok()) return call.result();
  ClientJitOptions jit;
  std::vector<CUjit_option> options = image.options;
  std::vector<void*> values = image.values;
  if (!jit.Read(static_cast<unsigned>(options.size()), options.data(), values.data())) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  ImageParts parts;
  parts.form = image.form;
  parts.parts = image.parts;
  cuLibraryLoadDataRequest request;
  request.library = call.Mint(HandleKind::kLibrary);
  if (!call.ok()) return call.result();
  request.options.Borrow(jit.options());
  request.values.Borrow(jit.values());
  cuLibraryLoadDataReply reply;
  if (const CUresult result = ImageUpload(call, parts).Sync(request, &reply); result != CUDA_SUCCESS) return result;
  if (reply.result != CUDA_SUCCESS) return call.Fail(static_cast<CUresult>(reply.result));
  *library = request.library;
  return CUDA_SUCCESS;
}

// A kernel that is known by its handle alone (cuLibraryEnumerateKernels) gets its name from its own session.
FunctionInfo* Describe(HandleId kernel) {
  if (FunctionInfo* known = Functions().FindDescribed(kernel)) return known;
  Session* session = Client::Get().SessionOf(kernel);
  const Context* context = session == nullptr ? nullptr : session->contexts().AnyActive(-1);
  if (context == nullptr || Functions().Find(kernel) == nullptr || !session->handles().IsLive(kernel)) return nullptr;
  const ContextScope scope(*context);
  BasicCall call(kInfo_cuKernelGetName, *context);
  return AskKernel(call, kernel);
}

}  // namespace

std::shared_ptr<const LibraryCopies::Image> LibraryCopies::Keep(const void* image, bool preserved, unsigned count,
                                                                const CUjit_option* options, void** values) {
  const Result<ImageParts> parts = FindImageParts(image);
  if (!parts.ok()) return nullptr;
  auto kept = std::make_shared<Image>();
  kept->form = parts.value().form;
  for (const auto part : parts.value().parts) {
    kept->parts.push_back(preserved ? part : kept->owned.emplace_back(part.begin(), part.end()));
  }
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_WALL_TIME:
      case CU_JIT_INFO_LOG_BUFFER:
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      case CU_JIT_ERROR_LOG_BUFFER:
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: break;  // what the application wanted to hear of the first load
      default: kept->options.push_back(options[i]); kept->values.push_back(values[i]);
    }
  }
  return kept;
}

void LibraryCopies::Add(HandleId library, std::shared_ptr<const Image> image) {
  auto entry = std::make_shared<Library>();
  entry->image = std::move(image);
  entry->known = library;
  entry->copies[library.session()] = library;
  MutexLock lock(mutex_);
  libraries_[library.value()] = std::move(entry);
}

std::vector<HandleId> LibraryCopies::Remove(HandleId library) {
  std::vector<HandleId> handles;
  MutexLock lock(mutex_);
  const auto found = libraries_.find(library.value());
  if (found == libraries_.end()) return handles;
  const std::shared_ptr<Library> entry = found->second;
  for (const auto& [session, copy] : entry->copies) {
    handles.push_back(copy);
    libraries_.erase(copy.value());
  }
  return handles;
}

bool LibraryCopies::BindForManaged(HandleId library) {
  MutexLock lock(mutex_);
  const auto found = libraries_.find(library.value());
  if (found == libraries_.end()) return true;
  found->second->has_managed = true;
  return found->second->copies.size() == 1;
}

CUresult LibraryCopies::LibraryIn(Session& session, HandleId library, HandleId* copy) {
  std::shared_ptr<Library> entry;
  {
    MutexLock lock(mutex_);
    const auto found = libraries_.find(library.value());
    if (found == libraries_.end()) return CUDA_ERROR_INVALID_HANDLE;
    entry = found->second;
    if (const auto known = entry->copies.find(session.index()); known != entry->copies.end()) {
      *copy = known->second;
      return CUDA_SUCCESS;
    }
    if (entry->has_managed) {
      LogWarning("kernels of a library with __managed__ variables run on the devices of one server: {} cannot have it as well",
                 session.Name());
      return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  const Context* context = ThreadState::Current().current();
  if (context == nullptr || context->session != &session || !context->active()) context = session.contexts().AnyActive(-1);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const ContextScope scope(*context);
  HandleId loaded;
  if (const CUresult result = Load(*context, *entry->image, &loaded); result != CUDA_SUCCESS) return result;
  {
    MutexLock lock(mutex_);
    const auto [known, is_new] = entry->copies.try_emplace(session.index(), loaded);
    *copy = known->second;
    if (is_new) {
      libraries_[loaded.value()] = entry;
      return CUDA_SUCCESS;
    }
  }
  // Another thread was faster.
  BasicCall call(kInfo_cuLibraryUnload, *context);
  cuLibraryUnloadRequest unload;
  unload.library = loaded;
  if (call.ok() && call.Sync(unload) != CUDA_SUCCESS) LogDebug("a second copy of a library was not unloaded");
  if (call.ok()) call.Release(loaded);
  return CUDA_SUCCESS;
}

CUresult LibraryCopies::KernelIn(Session& session, HandleId kernel, HandleId* copy) {
  const FunctionInfo* info = Describe(kernel);
  if (info == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  HandleId library;
  if (const CUresult result = LibraryIn(session, info->container, &library); result != CUDA_SUCCESS) return result;
  if (const FunctionInfo* known = Functions().FindByName(library, info->name)) {
    *copy = known->handle;
    return CUDA_SUCCESS;
  }
  const Context* context = session.contexts().AnyActive(-1);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const ContextScope scope(*context);
  BasicCall call(kInfo_cuLibraryGetKernel, *context);
  if (!call.ok()) return call.result();
  if (const CUresult result = GetKernel(call, library, info->name.c_str(), copy); result != CUDA_SUCCESS) return result;
  return CUDA_SUCCESS;
}

HandleId LibraryCopies::KnownLibrary(HandleId copy) {
  MutexLock lock(mutex_);
  const auto found = libraries_.find(copy.value());
  return found == libraries_.end() ? copy : found->second->known;
}

HandleId LibraryCopies::KnownKernel(HandleId library, const std::string& name, HandleId kernel) {
  MutexLock lock(mutex_);
  const auto found = libraries_.find(library.value());
  return found == libraries_.end() ? kernel : found->second->kernels.try_emplace(name, kernel).first->second;
}

}  // namespace tessera

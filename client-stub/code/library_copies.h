// Libraries and their kernels when the process has several servers. They belong to no context (CUDA driver API, "Library
// Management"): a kernel can be launched on every device. So this class keeps each library as it was loaded. Another session
// loads it at its first use there. The application goes on using its first handles.
//
// The image is copied, unless the application has said that it keeps it: otherwise it may drop it once the load has returned.
// With one server nothing is kept. Any thread. No lock is held while a server is asked: two threads may load the same copy, and
// one of them is dropped.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "client-stub/code/image.h"
#include "client-stub/process/process_part.h"
#include "client-stub/session/session.h"
#include "protocol/base/mutex.h"

namespace tessera {

class LibraryCopies {
 public:
  static LibraryCopies& Process() { return PartOfProcess<LibraryCopies>::Get(); }

  // A library as it was loaded.
  struct Image {
    ImageForm form = ImageForm::kBare;
    std::vector<std::span<const std::byte>> parts;
    std::vector<std::vector<std::byte>> owned;  // where the parts lie, unless the application keeps them
    std::vector<CUjit_option> options;          // those that need no memory of the application's
    std::vector<void*> values;
  };
  // Keeps what the application handed to a load call; null when it is no image. `preserved`: CU_LIBRARY_BINARY_IS_PRESERVED.
  static std::shared_ptr<const Image> Keep(const void* image, bool preserved, unsigned count, const CUjit_option* options,
                                           void** values);

  // `library` was loaded from `image`.
  void Add(HandleId library, std::shared_ptr<const Image> image) EXCLUDES(mutex_);
  // Its handles in all sessions, to be unloaded; nothing is known of it from now on.
  std::vector<HandleId> Remove(HandleId library) EXCLUDES(mutex_);
  // The application asks for a managed variable of the library. Natively all devices and the program share such a variable, so
  // from now on the library belongs to this session. False: it is loaded in another session too.
  bool BindForManaged(HandleId library) EXCLUDES(mutex_);
  // The handle in a session of the application's `library`. Loads it there if needed. 400: it is nobody's handle. 801: the
  // library has managed variables and belongs to another session; each session would have its own variables.
  CUresult LibraryIn(Session& session, HandleId library, HandleId* copy) EXCLUDES(mutex_);
  // As above for a kernel.
  CUresult KernelIn(Session& session, HandleId kernel, HandleId* copy) EXCLUDES(mutex_);

  // The application's handle of a library, and of a kernel of it. If the application has no handle of the kernel yet, `kernel`
  // becomes it.
  HandleId KnownLibrary(HandleId copy) EXCLUDES(mutex_);
  HandleId KnownKernel(HandleId library, const std::string& name, HandleId kernel) EXCLUDES(mutex_);

 private:
  struct Library {
    std::shared_ptr<const Image> image;
    bool has_managed = false;
    HandleId known;                           // what the application has
    std::map<uint32_t, HandleId> copies;      // by session index; `known` is one of them
    std::map<std::string, HandleId> kernels;  // what the application has, by name
  };

  Mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<Library>> libraries_ GUARDED_BY(mutex_);  // by each handle
};

}  // namespace tessera

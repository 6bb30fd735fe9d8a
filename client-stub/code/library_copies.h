// Libraries and their kernels when the process has several servers. They belong to no context (CUDA driver API, "Library
// Management"): a kernel can be launched on every device. So a library is kept here as it was loaded, is loaded by each other
// session when it is first used there, and the application goes on to use the handles it was given first.
//
// The image is copied, unless the application has said that it keeps it: it may drop it once the load has returned. With one
// server nothing is kept.
// Any thread. No lock is held while a server is asked: two threads may load the same copy, and one of them is dropped.
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
  // The application asks for a managed variable of the library, which natively all devices and the program share: the library
  // belongs to this session from now on. False when it is loaded in another one too.
  bool BindForManaged(HandleId library) EXCLUDES(mutex_);
  // The handle of `library`, which the application has, in a session; loaded there if need be. 400 for a handle that is
  // nobody's, 801 for a library with managed variables of another session: each session would have its own.
  CUresult LibraryIn(Session& session, HandleId library, HandleId* copy) EXCLUDES(mutex_);
  // As above for a kernel.
  CUresult KernelIn(Session& session, HandleId kernel, HandleId* copy) EXCLUDES(mutex_);

  // The handle that the application knows a library by, and a kernel of it: `kernel` is made the one when none was before.
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

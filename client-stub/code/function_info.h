// What the stub knows of one kernel or function: its name, the layout of its parameters, which launch configurations the
// driver has accepted, and the attributes it was asked for. Learned once, so that a launch needs no question.
#pragma once

#include <cuda.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client-stub/code/prepared_launch.h"
#include "client-stub/process/process_part.h"
#include "client-stub/process/slot_table.h"
#include "protocol/base/mutex.h"
#include "protocol/wire/handle.h"

namespace tessera {

// Where one parameter lies in the packed parameter buffer, in bytes (cuFuncGetParamInfo).
struct ParameterSlot {
  uint32_t offset;
  uint32_t size;
};

// The limits within which launches of a kernel need no answer: what the server says of the kernel, and what the driver has
// accepted. A launch with fewer threads and less shared memory than an accepted one cannot be refused for resources. Any other
// launch is sent synchronously, so that the call itself returns the driver's code. Any thread.
class LaunchEnvelope {
 public:
  bool Covers(uint32_t threads, uint32_t shared_bytes) const {
    return threads <= threads_.load(std::memory_order_relaxed) && shared_bytes <= shared_bytes_.load(std::memory_order_relaxed);
  }
  void Accept(uint32_t threads, uint32_t shared_bytes);
  // A changed function attribute may shrink what is accepted.
  void Reset();

 private:
  std::atomic<uint32_t> threads_{0};
  std::atomic<uint32_t> shared_bytes_{0};
};

// Hashes of launches that the driver has accepted and will accept again. Any thread.
class AcceptedLaunches {
 public:
  bool Contains(uint64_t hash) const;
  // Replaces an older hash if there is no room: libraries launch a kernel in a handful of ways.
  void Add(uint64_t hash);
  void Reset();

 private:
  static constexpr size_t kKept = 32;
  std::atomic<uint64_t> hashes_[kKept] = {};
};

// Answers of the driver about one kernel that stay true until one of its attributes is set. Any thread.
class QueryCache {
 public:
  // What was asked: the call, up to four numbers, and further arguments as bytes.
  struct Key {
    uint32_t call = 0;
    int64_t numbers[4] = {};
    std::string bytes = {};
    auto operator<=>(const Key&) const = default;
  };
  // Questions kept per kernel; an autotuner asks some dozens.
  static constexpr size_t kEntriesMax = 1024;

  std::optional<int64_t> Find(const Key& key) const;
  void Insert(const Key& key, int64_t value);
  void Clear();

 private:
  mutable Mutex mutex_;
  std::map<Key, int64_t> entries_ GUARDED_BY(mutex_);
};

// The device of an attribute that was set through a function: a function belongs to one context.
constexpr int kAnyDevice = -1;

struct FunctionInfo {
  HandleId handle;
  HandleId container;      // its module or library
  HandleId context;        // the owner; null for a kernel, and if it is not known
  bool described = false;  // name and layout are known; false at first for a function from an enumeration
  std::string name;        // never changes once described: cuFuncGetName hands out its characters
  std::vector<ParameterSlot> layout;
  uint32_t parameter_bytes = 0;  // end of the last parameter
  bool gaps = false;             // some bytes before that belong to no parameter
  PreparedLaunch prepared;       // by the launch functions of CUDA 3

  // Shared by a kernel and the functions made from it: they have the same attributes.
  struct Shared {
    LaunchEnvelope plain;
    AcceptedLaunches accepted;  // launches, and lists of launch attributes
    QueryCache queries;

    // Whether the attribute was last set to this value on this device, so that setting it again changes nothing.
    bool AlreadySet(int attribute, int device, int value) const;
    // Keeps a value that the driver accepted, and forgets the answers and envelopes that it may have changed.
    void RememberSet(int attribute, int device, int value);

   private:
    mutable Mutex set_mutex_;
    std::map<std::pair<int, int>, int> set_ GUARDED_BY(set_mutex_);
  };
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();

  void SetLayout(std::span<const uint32_t> offsets_and_sizes);
};

// The functions and kernels of the process, by handle. An entry stays at its address until its container is unloaded. Any thread.
// An application must not use a function while another thread unloads its module. If it does it finds nothing or the entry, never
// freed memory: entries of unloaded containers are recycled only after kGraveyardMax others.
class FunctionTable {
 public:
  static constexpr size_t kGraveyardMax = 1024;

  // The entry, described or not; null when there is none.
  FunctionInfo* Find(HandleId handle) const;
  // The entry when it is described. Takes no lock: every launch asks.
  FunctionInfo* FindDescribed(HandleId handle) {
    const Described* const found = described_.Find(handle);
    return found == nullptr ? nullptr : found->info.load(std::memory_order_acquire);
  }
  // The entry of `info->handle`; an existing one is kept and returned.
  FunctionInfo* Insert(std::unique_ptr<FunctionInfo> info);
  // Modules and their functions belong to a context. Sets it for entries of `container` that are inserted from now on.
  void NoteContext(HandleId container, HandleId context);
  HandleId ContextOf(HandleId container) const;  // null: it is of no context, or not known
  // Completes an entry from what the server says of the function in `reply`; the first description counts.
  template <typename Reply>
  void Describe(FunctionInfo* info, std::string_view name, const Reply& reply) {
    Describe(info, name, reply.layout, reply.max_threads, reply.max_shared_bytes);
  }
  std::vector<HandleId> OfContainer(HandleId container) const;
  // Drops all functions of a module or library; returns their handles, so that they can be released.
  std::vector<HandleId> EraseContainer(HandleId container);
  // An existing function of `container` with this name, null if none: asking twice yields the same handle, as natively.
  FunctionInfo* FindByName(HandleId container, const std::string& name) const;
  // The function made from a kernel for a context, and remembering it (cuKernelGetFunction).
  HandleId FindOfKernel(HandleId kernel, HandleId context) const;
  void RememberOfKernel(HandleId kernel, HandleId context, HandleId function);

 private:
  void Describe(FunctionInfo* info, std::string_view name, std::span<const uint32_t> offsets_and_sizes, uint32_t max_threads,
                uint32_t max_shared_bytes);

  void MakeFindable(FunctionInfo* info) REQUIRES(mutex_);

  struct Described {
    std::atomic<FunctionInfo*> info{nullptr};
  };
  SlotTable<Described> described_;
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<FunctionInfo>> by_handle_ GUARDED_BY(mutex_);
  std::map<std::pair<uint64_t, std::string>, FunctionInfo*> by_name_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, HandleId> contexts_ GUARDED_BY(mutex_);  // of containers
  std::map<std::pair<uint64_t, uint64_t>, HandleId> of_kernel_ GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<FunctionInfo>> graveyard_ GUARDED_BY(mutex_);
};

// The table of this process.
inline FunctionTable& Functions() { return PartOfProcess<FunctionTable>::Get(); }

}  // namespace tessera

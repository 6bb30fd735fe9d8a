// The state of the emulated driver: devices, their contexts, and what threads have current.
//
// Driver is one per process and never destroyed: streams' threads may run until the process ends.
// Locks, in the order they may be taken: Driver::graph_mutex, Context::order_mutex_, Stream::mutex_; registries and the
// memory table have locks of their own that are leaves.
// Source: CUDA driver API, "Context Management", "Primary Context Management".
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/emulator/driver/base/api.h"
#include "server/emulator/driver/base/options.h"
#include "server/emulator/driver/base/registry.h"
#include "server/emulator/driver/base/threads.h"
#include "server/emulator/driver/core/command.h"
#include "server/emulator/driver/core/local_memory.h"
#include "server/emulator/driver/core/stream.h"
#include "server/emulator/driver/device/device.h"
#include "server/emulator/driver/device/memory_table.h"
#include "server/emulator/ptx/run/launch.h"

namespace tessera::emulator {

class Context;
using ContextPtr = std::shared_ptr<Context>;
class Event;
class LoadedModule;
class Function;
class Library;
class LibraryKernel;
class Array;
class MipmappedArray;
struct TextureObject;
class PhysicalMemory;
class Pool;
class Graph;
class GraphNode;
class GraphExec;
class LinkState;
class UserObject;
class GraphMemory;
class NodeChanges;
class Condition;
class GreenContext;
class ResourceDescriptor;

class Driver;

// Which addresses kernels of one context may touch.
class ContextMemoryMap : public MemoryMap {
 public:
  explicit ContextMemoryMap(Context* context) : context_(context) {}
  bool Find(uint64_t address, MemoryRange* range) override;

 private:
  Context* const context_;
};

class Context : public std::enable_shared_from_this<Context>, public PrintSink, public DeviceHeap, public TextureMap {
 public:
  Context(Driver& driver, Device* device, unsigned flags, bool primary, uint64_t handle);
  // The context of a green context: `multiprocessors` of its device, and everything else `primary`'s.
  Context(const ContextPtr& primary, int multiprocessors, uint64_t handle);
  ~Context() override;

  Device& device() const { return *device_; }
  bool primary() const { return primary_; }
  uint64_t id() const { return id_; }
  uint64_t handle() const { return handle_; }
  // Handle of the context that owns memory, modules and events made here: this one, or behind a green one the primary.
  uint64_t owner_handle() const { return parent_ == nullptr ? handle_ : parent_->handle_; }
  ContextPtr owner() { return parent_ == nullptr ? shared_from_this() : parent_; }
  bool green() const { return parent_ != nullptr; }
  // How many work for this context.
  int multiprocessors() const { return multiprocessors_; }
  CUcontext cuda_handle() const { return reinterpret_cast<CUcontext>(handle_); }

  // False before a primary context is retained and after any context is destroyed.
  bool active() const { return active_.load(); }
  // Takes what a context has of the device's memory, but for a green one. False when there is not that much left.
  bool Activate();
  // The steps of the end of a context (api/destroy_context.h), in this order. Stop ends all work and blocks until the streams are
  // idle; Clear gives back memory and streams when nothing refers to them any more.
  void Stop();
  void Clear();
  // The green contexts of a primary one.
  std::vector<ContextPtr> Greens() const;

  // The first error of device code; every later call returns it. CUDA_SUCCESS while all is well.
  CUresult sticky() const { return parent_ != nullptr ? parent_->sticky() : static_cast<CUresult>(sticky_.load()); }
  void Fail(CUresult error);
  // True when work should end early: the context has failed or is being destroyed.
  bool cancelled() const { return cancel_.load() || (parent_ != nullptr && parent_->cancelled()); }
  const std::atomic<bool>* cancel_flag() const { return &cancel_; }

  // Appends to the stream, after what the legacy-stream rules demand and after `after`. Any thread.
  FencePtr Submit(const StreamPtr& stream, CommandPtr command, std::vector<FencePtr> after = {});
  StreamPtr legacy() const { return legacy_; }
  StreamPtr PerThread();
  StreamPtr CreateStream(Stream::Type type, int priority);
  void ForgetStream(const StreamPtr& stream);
  std::vector<StreamPtr> streams() const;
  // Waits for everything submitted so far, writes out device printf text, returns the sticky error.
  CUresult Synchronize();
  // Runs the command beside all streams when everything submitted so far is done, in the green contexts of a primary one too.
  FencePtr SubmitAfterAll(CommandPtr command);
  // Runs the command beside all streams, after `after`.
  FencePtr SubmitAside(CommandPtr command, std::vector<FencePtr> after);
  // Holds back what is submitted from now on, here and in the green contexts of a primary one, until `fence` completes.
  void HoldBack(const FencePtr& fence);
  // Whether something holds back what is submitted now.
  bool HoldsBack() const;
  // Waits for `fence`; likewise.
  CUresult WaitFor(const FencePtr& fence);

  // Host functions of a context, those of its green contexts too, run one after the other (measured: driver 580). To be held
  // while one runs.
  std::mutex& host_function_mutex() { return parent_ == nullptr ? host_function_mutex_ : parent_->host_function_mutex_; }

  ContextMemoryMap& memory_map() { return memory_map_; }
  // A green context has its primary one's.
  LocalMemory& local_memory() { return parent_ == nullptr ? local_memory_ : parent_->local_memory_; }
  bool MayAccess(const Allocation& allocation, bool* writable) const;

  // PrintSink: device printf text, kept until FlushPrint writes it to standard output.
  void Print(std::string_view text) override;
  void FlushPrint();
  // DeviceHeap.
  uint64_t Allocate(uint64_t size_bytes) override;
  bool Free(uint64_t address) override;
  // TextureMap (entry_texture.cc).
  bool FindTexture(uint64_t object, Texture* texture) override;
  bool FindSurface(uint64_t object, Texture* surface) override;

  mutable std::mutex settings_mutex;  // guards the settings below
  std::map<int, size_t> limits;       // but CU_LIMIT_STACK_SIZE
  unsigned flags = 0;
  CUfunc_cache cache_config = CU_FUNC_CACHE_PREFER_NONE;
  CUsharedconfig shared_config = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
  std::set<uint64_t> peers;  // handles of contexts whose memory this one may use
  unsigned api_version = 3020;

 private:
  std::vector<StreamPtr> StreamsLocked() const;
  StreamPtr MakeStream(Stream::Type type, int priority) const;

  Device* const device_;
  const bool primary_;
  const ContextPtr parent_;
  const int multiprocessors_;
  const uint64_t id_;
  const uint64_t handle_;
  std::atomic<bool> active_{false};
  std::atomic<int> sticky_{0};
  std::atomic<bool> cancel_{false};
  ContextMemoryMap memory_map_;
  LocalMemory local_memory_;
  mutable std::mutex order_mutex_;
  StreamPtr legacy_;
  std::map<std::thread::id, StreamPtr> per_thread_;  // guarded by order_mutex_
  std::vector<StreamPtr> streams_;                   // created ones; guarded by order_mutex_
  std::vector<FencePtr> held_back_;                  // what new work waits for; guarded by order_mutex_
  std::mutex host_function_mutex_;
  std::mutex print_mutex_;
  std::string print_text_;  // guarded by print_mutex_
  std::mutex heap_mutex_;
  std::map<uint64_t, uint64_t> heap_;  // base -> mapped bytes; guarded by heap_mutex_
  uint64_t heap_used_bytes_ = 0;
};

class Driver {
 public:
  Driver();
  CUresult Initialize();
  bool initialized() const { return initialized_.load(); }
  // The process is a child of the one that made this.
  bool forked() const { return forked_.load(); }
  Device* device(int number);
  int device_count() const { return static_cast<int>(devices_.size()); }
  // Called after any range of memory was withdrawn or its access changed.
  void MemoryChanged();
  // A number for one random decision; the sequence depends on the seed alone.
  uint64_t Random();
  void RandomPause();

  Threads threads;
  MemoryTable memory{[this] { MemoryChanged(); }};
  Registry<Context> contexts{HandleKind::kContext};
  Registry<Stream> streams{HandleKind::kStream};
  Registry<Event> events{HandleKind::kEvent};
  Registry<LoadedModule> modules{HandleKind::kModule};
  Registry<Function> functions{HandleKind::kFunction};
  Registry<Library> libraries{HandleKind::kLibrary};
  Registry<LibraryKernel> kernels{HandleKind::kKernel};
  Registry<Array> arrays{HandleKind::kArray};
  Registry<MipmappedArray> mipmapped_arrays{HandleKind::kMipmappedArray};
  Registry<TextureObject> texture_objects{HandleKind::kTextureObject};
  Registry<PhysicalMemory> physical{HandleKind::kMemoryHandle};
  Registry<Pool> pools{HandleKind::kPool};
  Registry<Graph> graphs{HandleKind::kGraph};
  Registry<GraphNode> graph_nodes{HandleKind::kGraphNode};
  Registry<GraphExec> graph_execs{HandleKind::kGraphExec};
  Registry<LinkState> links{HandleKind::kLink};
  Registry<UserObject> user_objects{HandleKind::kUserObject};
  Registry<GreenContext> green_contexts{HandleKind::kGreenContext};
  Registry<ResourceDescriptor> resource_descriptors{HandleKind::kResourceDescriptor};
  Registry<Condition> conditions{HandleKind::kCondition};  // what graphs branch by

  // Reserved addresses, and what is mapped there (api/entry_vmm.cc).
  struct AddressSpace {
    std::mutex mutex;
    std::map<uint64_t, uint64_t> reserved;                       // base -> bytes; guarded by mutex
    std::map<uint64_t, std::shared_ptr<PhysicalMemory>> mapped;  // by address; guarded by mutex
  };
  AddressSpace address_space;

  // Every allocation node's memory that exists, by its first address (graphs/graph_memory.h).
  std::mutex graph_memory_mutex;
  std::map<uint64_t, std::weak_ptr<GraphMemory>> graph_memory;  // guarded by graph_memory_mutex
  // What kernels have of graphs and nodes (graphs/device_handle.h).
  std::mutex device_handles_mutex;
  std::set<uint64_t> device_handles;  // guarded by device_handles_mutex

  // Guards graphs, their nodes, and the capture state of every stream and event.
  std::recursive_mutex graph_mutex;
  std::map<uint64_t, std::weak_ptr<NodeChanges>> node_changes;  // by the handle of the node; guarded by graph_mutex
  std::atomic<int> active_captures{0};
  std::atomic<uint64_t> next_stream_id{1};
  std::atomic<uint64_t> next_context_id{1};
  std::atomic<uint64_t> next_grid_id{1};
  std::atomic<uint64_t> next_capture_id{1};
  std::atomic<uint64_t> next_split{1};  // of a device's multiprocessors

 private:
  std::atomic<bool> initialized_{false};
  std::atomic<bool> forked_{false};
  std::mutex init_mutex_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::atomic<uint64_t> random_{0};
};

Driver& GetDriver();

// The calling thread's context stack and modes.
struct ThreadState {
  std::vector<uint64_t> contexts;  // handles; the last is current
  bool in_host_function = false;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};
ThreadState& GetThread();

// Checks every entry point begins with.
// Initialised, and not inside a host function.
CUresult CheckEntry();
// As CheckEntry; finds the current context and returns its sticky error.
CUresult EnterContext(ContextPtr* context);
// As EnterContext without the sticky error: for calls that clean up or only ask.
CUresult CurrentContext(ContextPtr* context);
// Resolves a stream handle of the current context (0 and 1 the legacy stream, 2 the calling thread's), and `context`, the
// stream's own. CUDA_ERROR_INVALID_HANDLE for one that does not exist.
CUresult EnterStream(CUstream handle, ContextPtr* context, StreamPtr* stream);
CUresult FindStream(const ContextPtr& current, CUstream handle, StreamPtr* stream);

}  // namespace tessera::emulator

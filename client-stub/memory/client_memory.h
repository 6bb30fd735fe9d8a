// The memory of one session as the client sees it: device allocations, pinned and registered host memory, staging. One per
// session, made with it (root/attach_session.h), never destroyed. Any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <unordered_map>

#include "client-stub/memory/address_reservations.h"
#include "client-stub/memory/deliveries.h"
#include "client-stub/memory/device_memory.h"
#include "client-stub/memory/host_allocations.h"
#include "client-stub/memory/host_memory.h"
#include "client-stub/memory/host_mirrors.h"
#include "client-stub/memory/host_pools.h"
#include "client-stub/memory/shadow_pool.h"
#include "client-stub/memory/staging.h"
#include "client-stub/session/basic_call.h"
#include "client-stub/session/session.h"
#include "protocol/memory/window_table.h"

namespace tessera {

// What an address is to a copy.
enum class Place : uint8_t {
  kDevice,    // device memory that this process holds, and host mappings to which the program has no access
  kPinned,    // pinned host memory that the server's driver reaches, at the same address
  kPrivate,   // pinned host memory that only this process has: registered, pinned for another server, or any over a
              // mirrored channel
  kPageable,  // any other host memory
  kInvalid,   // device or pinned, but not all of the range is allocated
};

class ClientMemory {
 public:
  explicit ClientMemory(Session& session);

  DeviceMemory& device() { return device_; }
  HostMemory& host() { return host_; }
  Staging& staging() { return staging_; }
  const Staging& staging() const { return staging_; }
  ShadowPool& shadows() { return shadows_; }
  HostMirrors& mirrors() { return mirrors_; }
  HostPools& pools() { return pools_; }
  HostAllocations& allocations() { return allocations_; }
  Deliveries& deliveries() { return deliveries_; }
  AddressReservations& reservations() { return reservations_; }
  const WindowPair& windows() const { return windows_; }
  void EndContext(HandleId context);
  // The process ends: when this returns, the library touches no memory any more that the program allocated or registered itself,
  // but for calls under way. Waits for no server.
  void EndProcess();

  // A physical allocation of the application (cuMemCreate): its device, and how it may be exported.
  struct Physical {
    CUdevice device = 0;
    uint32_t handle_types = 0;
    uint64_t references = 1;  // how often the handle has to be released
  };
  void NoteAllocation(HandleId handle, const Physical& physical) EXCLUDES(mutex_);
  // Adds a reference. False: the handle was released.
  bool RetainAllocation(HandleId handle) EXCLUDES(mutex_);
  // Removes a reference. True: it was the last, and the handle is no longer known.
  bool ReleaseAllocation(HandleId handle) EXCLUDES(mutex_);
  Physical AllocationOf(HandleId handle) EXCLUDES(mutex_);

  // The address for a copy or set of `address`. It differs for the device pointer of registered private memory, and for a
  // registered shared file, whose alias the server reaches.
  uint64_t Translate(uint64_t address) const {
    if (const uint64_t alias = host_.AliasOf(address)) return alias;
    if (SeveralServers() && !host_.InWindow(address)) [[unlikely]]
      return TranslateElsewhere(address);
    return mirrors_.any() && host_.InWindow(address) ? mirrors_.HostAddress(address).value_or(address) : address;
  }
  // The address of the same byte in the application's own memory.
  uint64_t Original(uint64_t address) const {
    if (const uint64_t original = host_.OriginalOf(address)) return original;
    return mirrors_.any() && host_.InWindow(address) ? mirrors_.HostAddress(address).value_or(address) : address;
  }
  // What [address, address + bytes) is. Nothing is known of host memory that is neither pinned nor registered, so that is always
  // kPageable.
  Place Classify(uint64_t address, uint64_t bytes) const;

 private:
  // The same for what is mapped at `address` on the host.
  static Place ClassifyMapping(const HostBlock& block, uint64_t address, uint64_t bytes);
  // As Translate(), for device pointers of memory that another session has pinned.
  uint64_t TranslateElsewhere(uint64_t address) const;

  const Session& session_;
  const WindowPair windows_;
  DeviceMemory device_;
  HostMemory host_;
  Staging staging_;
  ShadowPool shadows_;
  Deliveries deliveries_;
  HostMirrors mirrors_;
  HostPools pools_;
  HostAllocations allocations_;
  AddressReservations reservations_{HeldAddresses::Process()};
  Mutex mutex_;
  std::unordered_map<uint64_t, Physical> physical_ GUARDED_BY(mutex_);
};

// For calls whose device addresses the driver chooses (module variables, graph memory). Keeps this process from ever mapping
// anything there, and makes the range known to pointer questions and copies. False: something of this process lies there, so the
// application must not get the address.
bool AdoptDriverRange(Session& session, const DeviceAllocation& allocation);
// As AdoptDriverRange for a variable of the module or library `container` in the calling thread's current context.
bool AdoptGlobal(BasicCall& call, const Range& range, HandleId container);

// The owner of an address, in a process with several servers. Each session has its own part of the address windows, and knows
// what its driver places elsewhere (address_windows.h).
struct AddressOwner {
  Session* session = nullptr;        // null: no session has memory there
  const Context* context = nullptr;  // an active one that can use the memory; null: none
  bool host = false;                 // pinned or registered memory of the process
};
// The owner of device memory, and of pinned or registered host memory.
AddressOwner OwnerOf(uint64_t address);

// For memory that a session other than `session` has pinned or registered: the server of `session` treats it as private memory of
// this process. Returns the address of the same byte in the application's own memory; 0: it is no such memory. `whole`: whether
// all of [address, address + bytes) is in one block.
uint64_t PinnedElsewhere(const Session& session, uint64_t address, uint64_t bytes, bool* whole);

}  // namespace tessera

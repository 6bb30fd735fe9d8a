// Turning the addresses of a warp's lanes into host pointers, checked. Every access to memory goes through here.
#pragma once

#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"
#include "server/emulator/ptx/run/warp.h"

namespace tessera::emulator {

enum class MemorySpace : uint8_t { kGlobal, kShared, kLocal, kGeneric };

// The slow paths: faults and mixed or uncached addresses. False after a fault.
bool TranslateSlow(Warp& w, const Inst& inst, uint32_t mask, const uint64_t* addresses, MemorySpace space, uint32_t size,
                   bool write, uint8_t** pointers);

// Fills `pointers` for the lanes of `mask`; `size` bytes each must be accessible and aligned. False: the grid has faulted.
template <MemorySpace kSpace, bool k32Bit>
inline bool Translate(Warp& w, const Inst& inst, uint32_t mask, uint32_t size, bool write, uint8_t** pointers) {
  alignas(64) uint64_t addresses[kLaneCount];
  const uint64_t offset = inst.imm;
  if constexpr (k32Bit) {
    const uint32_t* a = w.Slot<uint32_t>(inst.src[0]);
    for (uint32_t l = 0; l < kLaneCount; ++l) addresses[l] = static_cast<uint32_t>(a[l] + static_cast<uint32_t>(offset));
  } else {
    const uint64_t* a = w.Slot<uint64_t>(inst.src[0]);
    for (uint32_t l = 0; l < kLaneCount; ++l) addresses[l] = a[l] + offset;
  }
  if constexpr (kSpace == MemorySpace::kGlobal || kSpace == MemorySpace::kGeneric) {
    // All lanes in the range used last: one comparison of the lowest and the highest address.
    uint64_t low = UINT64_MAX, high = 0, bits = 0;
    if (mask == kAllLanes) {
      for (uint32_t l = 0; l < kLaneCount; ++l) {
        low = addresses[l] < low ? addresses[l] : low;
        high = addresses[l] > high ? addresses[l] : high;
        bits |= addresses[l];
      }
    } else {
      for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const uint64_t address = addresses[std::countr_zero(rest)];
        low = address < low ? address : low;
        high = address > high ? address : high;
        bits |= address;
      }
    }
    if ((bits & (size - 1)) == 0 && high < kSharedWindow && w.worker().InCachedRange(low, high + size, write)) {
      for (uint32_t l = 0; l < kLaneCount; ++l) pointers[l] = reinterpret_cast<uint8_t*>(addresses[l]);
      return true;
    }
  } else if constexpr (kSpace == MemorySpace::kShared) {
    uint64_t high = 0, bits = 0;
    if (mask == kAllLanes) {
      for (uint32_t l = 0; l < kLaneCount; ++l) {
        high = addresses[l] > high ? addresses[l] : high;
        bits |= addresses[l];
      }
    } else {
      for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        const uint64_t address = addresses[std::countr_zero(rest)];
        high = address > high ? address : high;
        bits |= address;
      }
    }
    if ((bits & (size - 1)) == 0 && high <= UINT32_MAX && high + size <= w.block().shared_bytes()) {
      uint8_t* base = w.block().shared();
      for (uint32_t l = 0; l < kLaneCount; ++l) pointers[l] = base + addresses[l];
      return true;
    }
  }
  return TranslateSlow(w, inst, mask, addresses, kSpace, size, write, pointers);
}

// What ld, st, atom and the like share in their modifiers.
struct AccessModifiers {
  Space space = Space::kGeneric;
  uint32_t vector = 1;
  bool cache_hint = false;  // one more operand, which is ignored
};
AccessModifiers TakeAccessModifiers(Lowering& l);
bool SpaceOf(Lowering& l, Space space, MemorySpace* result);

// The slots of a vector operand's registers, or of the one register; their number must be `count`.
std::vector<uint32_t> Elements(Lowering& l, const Operand& operand, Type type, uint32_t count, bool destination);

// Picks the handler for a space and address width out of a template over both.
template <template <MemorySpace, bool> class H>
Handler PickSpace(MemorySpace space, bool is_32bit) {
  switch (space) {
    case MemorySpace::kGlobal: return is_32bit ? &H<MemorySpace::kGlobal, true>::Run : &H<MemorySpace::kGlobal, false>::Run;
    case MemorySpace::kShared: return is_32bit ? &H<MemorySpace::kShared, true>::Run : &H<MemorySpace::kShared, false>::Run;
    case MemorySpace::kLocal: return is_32bit ? &H<MemorySpace::kLocal, true>::Run : &H<MemorySpace::kLocal, false>::Run;
    default: return is_32bit ? &H<MemorySpace::kGeneric, true>::Run : &H<MemorySpace::kGeneric, false>::Run;
  }
}

}  // namespace tessera::emulator

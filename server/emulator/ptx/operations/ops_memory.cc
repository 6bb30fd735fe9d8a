// Loads, stores, prefetches, cp.async (done at once). Source: PTX ISA 9.0, "Data Movement and Conversion Instructions".
#include <fmt/core.h>

#include "server/emulator/ptx/operations/memory.h"

namespace tessera::emulator {

bool TranslateSlow(Warp& w, const Inst& inst, uint32_t mask, const uint64_t* addresses, MemorySpace space, uint32_t size,
                   bool write, uint8_t** pointers) {
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t address = addresses[lane];
    MemorySpace in = space;
    uint64_t offset = address;
    if (space == MemorySpace::kGeneric) {
      const uint64_t window = address & kWindowMask;
      offset = address & ~kWindowMask;
      in = window == kSharedWindow ? MemorySpace::kShared : window == kLocalWindow ? MemorySpace::kLocal : MemorySpace::kGlobal;
    }
    auto where = [&] {
      return fmt::format("{} of {} bytes at {:#x} in {} memory by thread {},{},{}", write ? "a write" : "a read", size, address,
                         in == MemorySpace::kShared  ? "shared"
                         : in == MemorySpace::kLocal ? "local"
                                                     : "global",
                         w.thread_x[lane], w.thread_y[lane], w.thread_z[lane]);
    };
    if ((address & (size - 1)) != 0) {
      w.Fault(LaunchError::kMisalignedAddress, inst, "misaligned: " + where());
      return false;
    }
    switch (in) {
      case MemorySpace::kShared:
        if (offset + size > w.block().shared_bytes()) {
          w.Fault(LaunchError::kIllegalAddress, inst,
                  fmt::format("outside the block's {} bytes: {}", w.block().shared_bytes(), where()));
          return false;
        }
        pointers[lane] = w.block().shared() + offset;
        break;
      case MemorySpace::kLocal:
        if (offset + size > w.local_capacity()) {
          w.Fault(LaunchError::kIllegalAddress, inst, "outside the stack: " + where());
          return false;
        }
        pointers[lane] = w.LocalLane(lane) + offset;
        break;
      default:
        if (!w.worker().InCachedRange(address, address + size, write) && !w.worker().FindRange(address, address + size, write)) {
          w.Fault(LaunchError::kIllegalAddress, inst, "not device memory: " + where());
          return false;
        }
        pointers[lane] = reinterpret_cast<uint8_t*>(address);
        break;
    }
  }
  return true;
}

AccessModifiers TakeAccessModifiers(Lowering& l) {
  AccessModifiers access;
  for (std::string_view word :
       {"weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio", "cta", "cluster", "gpu",
        "sys",  "ca",      "cg",      "cs",      "lu",      "cv",       "wb",   "wt",  "nc",      "unified"}) {
    l.Take(word);
  }
  for (std::string_view word : {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
                                "L2::64B", "L2::128B", "L2::256B", "L2::evict_last", "L2::evict_normal", "L2::evict_first"}) {
    l.Take(word);
  }
  access.cache_hint = l.Take("L2::cache_hint");
  if (l.Take("global"))
    access.space = Space::kGlobal;
  else if (l.Take("const"))
    access.space = Space::kConst;
  else if (l.Take("shared") || l.Take("shared::cta") || l.Take("shared::cluster"))
    access.space = Space::kShared;
  else if (l.Take("local"))
    access.space = Space::kLocal;
  else if (l.Take("param") || l.Take("param::entry") || l.Take("param::func"))
    access.space = Space::kParam;
  if (l.Take("v2"))
    access.vector = 2;
  else if (l.Take("v4"))
    access.vector = 4;
  else if (l.Take("v8"))
    access.vector = 8;
  return access;
}

bool SpaceOf(Lowering& l, Space space, MemorySpace* result) {
  switch (space) {
    case Space::kGlobal:
    case Space::kConst: *result = MemorySpace::kGlobal; return true;
    case Space::kShared: *result = MemorySpace::kShared; return true;
    case Space::kLocal: *result = MemorySpace::kLocal; return true;
    // Parameters of a kernel are addressed as global memory (generic), those of a function lie on the stack.
    case Space::kParam: *result = l.in_kernel() ? MemorySpace::kGeneric : MemorySpace::kLocal; return true;
    default: *result = MemorySpace::kGeneric; return true;
  }
}

std::vector<uint32_t> Elements(Lowering& l, const Operand& operand, Type type, uint32_t count, bool destination) {
  std::vector<uint32_t> slots;
  auto add = [&](const Operand& each) { slots.push_back(destination ? l.Destination(each, type) : l.Source(each, type)); };
  if (operand.kind == Operand::kVector) {
    for (const Operand& each : operand.elements) add(each);
  } else {
    add(operand);
  }
  if (slots.size() != count) l.Fail(fmt::format("'{}' has {} registers", l.statement().opcode, slots.size()));
  return slots;
}

namespace {

struct Wide128 {
  uint64_t low, high;
};

template <class T, uint32_t kCount>
struct LoadOf {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) {
      alignas(64) uint8_t* p[kLaneCount];
      if (!Translate<kSpace, k32Bit>(w, inst, mask, sizeof(T) * kCount, false, p)) return;
      for (uint32_t i = 0; i < kCount; ++i) {
        T* d = w.Slot<T>(kCount == 1 ? inst.dst : w.Extra(inst)[i]);
        ForLanes(mask, [&](uint32_t l) { std::memcpy(&d[l], p[l] + i * sizeof(T), sizeof(T)); });
      }
    }
  };
};
template <class T, uint32_t kCount>
struct StoreOf {
  template <MemorySpace kSpace, bool k32Bit>
  struct In {
    static void Run(Warp& w, const Inst& inst, uint32_t mask) {
      alignas(64) uint8_t* p[kLaneCount];
      if (!Translate<kSpace, k32Bit>(w, inst, mask, sizeof(T) * kCount, true, p)) return;
      for (uint32_t i = 0; i < kCount; ++i) {
        const T* a = w.Slot<T>(kCount == 1 ? inst.src[1] : w.Extra(inst)[i]);
        // In order of the lanes, so that which of several writes to one place survives does not vary.
        for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
          const auto l = static_cast<uint32_t>(std::countr_zero(rest));
          std::memcpy(p[l] + i * sizeof(T), &a[l], sizeof(T));
        }
      }
    }
  };
};

template <template <class, uint32_t> class H>
Handler PickAccess(uint32_t bytes, uint32_t count, MemorySpace space, bool is_32bit) {
  auto by_count = [&]<class T>() -> Handler {
    switch (count) {
      case 1: return PickSpace<H<T, 1>::template In>(space, is_32bit);
      case 2: return PickSpace<H<T, 2>::template In>(space, is_32bit);
      case 4: return PickSpace<H<T, 4>::template In>(space, is_32bit);
      default: return PickSpace<H<T, 8>::template In>(space, is_32bit);
    }
  };
  switch (bytes) {
    case 1: return by_count.template operator()<uint8_t>();
    case 2: return by_count.template operator()<uint16_t>();
    case 4: return by_count.template operator()<uint32_t>();
    case 8: return by_count.template operator()<uint64_t>();
    default: return count == 1 ? PickSpace<H<Wide128, 1>::template In>(space, is_32bit) : nullptr;
  }
}

template <class T>
void LoadParameter(Warp& w, const Inst& inst, uint32_t mask) {
  const uint8_t* base = w.grid().parameters.data() + inst.imm;
  for (uint32_t i = 0; i < inst.small; ++i) {
    T value;
    std::memcpy(&value, base + i * sizeof(T), sizeof(T));
    T* d = w.Slot<T>(w.Extra(inst)[i]);
    ForLanes(mask, [&](uint32_t l) { d[l] = value; });
  }
}

void LowerLoad(Lowering& l) {
  const AccessModifiers access = TakeAccessModifiers(l);
  const Type t = l.TakeType();
  if (t.IsPredicate() || t.size_bytes * access.vector > 32) return l.Unknown();
  const Address address = l.AddressOf(1, access.space);
  if (l.failed()) return;
  if (address.kernel_parameter) {
    const uint64_t bytes = static_cast<uint64_t>(t.size_bytes) * access.vector;
    const std::vector<uint32_t> slots = Elements(l, l.operand(0), t, access.vector, true);
    const uint32_t extra = l.Extra(slots);
    if (address.offset < 0 || static_cast<uint64_t>(address.offset) + bytes > l.parameter_bytes())
      return l.Fail("a load reaches outside the parameters");
    Inst& inst = l.Emit(t.size_bytes == 1   ? &LoadParameter<uint8_t>
                        : t.size_bytes == 2 ? &LoadParameter<uint16_t>
                        : t.size_bytes == 4 ? &LoadParameter<uint32_t>
                        : t.size_bytes == 8 ? &LoadParameter<uint64_t>
                                            : &LoadParameter<Wide128>);
    inst.imm = static_cast<uint64_t>(address.offset);
    inst.small = static_cast<uint8_t>(access.vector);
    inst.extra = extra;
    return;
  }
  MemorySpace space = MemorySpace::kGeneric;
  SpaceOf(l, access.space, &space);
  // A call's return values and the like are variables of the function even in a kernel.
  if (access.space == Space::kParam && l.IsLocalVariable(1)) space = MemorySpace::kLocal;
  const std::vector<uint32_t> slots = Elements(l, l.operand(0), t, access.vector, true);
  const Handler run = PickAccess<LoadOf>(t.size_bytes, access.vector, space, address.is_32bit);
  if (run == nullptr || slots.empty()) return l.Unknown();
  const uint32_t extra = l.Extra(slots);
  Inst& inst = l.Emit(run);
  inst.dst = slots[0];
  inst.src[0] = address.slot;
  inst.imm = static_cast<uint64_t>(address.offset);
  inst.extra = extra;
}

void LowerStore(Lowering& l) {
  const AccessModifiers access = TakeAccessModifiers(l);
  const Type t = l.TakeType();
  if (t.IsPredicate() || t.size_bytes * access.vector > 32) return l.Unknown();
  const Address address = l.AddressOf(0, access.space);
  if (l.failed()) return;
  if (address.kernel_parameter) return l.Fail("a kernel writes to its parameters");
  MemorySpace space = MemorySpace::kGeneric;
  SpaceOf(l, access.space, &space);
  if (access.space == Space::kParam && l.IsLocalVariable(0)) space = MemorySpace::kLocal;
  const std::vector<uint32_t> slots = Elements(l, l.operand(1), t, access.vector, false);
  const Handler run = PickAccess<StoreOf>(t.size_bytes, access.vector, space, address.is_32bit);
  if (run == nullptr || slots.empty()) return l.Unknown();
  const uint32_t extra = l.Extra(slots);
  Inst& inst = l.Emit(run);
  inst.src[0] = address.slot;
  inst.src[1] = slots[0];
  inst.imm = static_cast<uint64_t>(address.offset);
  inst.extra = extra;
}

void DoNothing(Warp&, const Inst&, uint32_t) {}

// Hints: the operands are checked for nothing, as on a device.
void LowerHint(Lowering& l) {
  while (!l.TakeFirst().empty()) {
  }
  l.Emit(&DoNothing);
}

// cp.async copies at once; waiting for it is then nothing. dst [0], src [1], size, source size (the rest is zero).
template <MemorySpace kSpace, bool k32Bit>
struct CopyAsync {
  static void Run(Warp& w, const Inst& inst, uint32_t mask) {
    alignas(64) uint8_t* to[kLaneCount];
    alignas(64) uint8_t* from[kLaneCount];
    const auto size = static_cast<uint32_t>(inst.small);
    if (!Translate<MemorySpace::kShared, k32Bit>(w, inst, mask, size, true, to)) return;
    const uint32_t* source_size = inst.src[2] != kNoSlot ? w.Slot<uint32_t>(inst.src[2]) : nullptr;
    uint32_t reading = mask;
    for (uint32_t l = 0; l < kLaneCount && source_size != nullptr; ++l) {
      if (source_size[l] == 0) reading &= ~(1u << l);
    }
    Inst source = inst;
    source.src[0] = inst.src[1];
    std::memcpy(&source.imm, w.Extra(inst), 8);
    if (reading != 0 && !Translate<MemorySpace::kGeneric, false>(w, source, reading, size, false, from)) return;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
      const auto l = static_cast<uint32_t>(std::countr_zero(rest));
      const uint32_t take = source_size != nullptr ? std::min(source_size[l], size) : size;
      if (take != 0) std::memcpy(to[l], from[l], take);
      if (take < size) std::memset(to[l] + take, 0, size - take);
    }
  }
};

void LowerCp(Lowering& l) {
  if (!l.Take("async")) return l.Unknown();
  if (l.Take("commit_group") || l.Take("wait_all") || l.Take("wait_group")) {
    l.Emit(&DoNothing);
    return;
  }
  if (l.Peek("bulk") || l.Peek("mbarrier")) {
    if (!LowerAsyncCopyOnBarrier(l)) l.Unknown();
    return;
  }
  if (!l.Take("shared") && !l.Take("shared::cta")) return l.Unknown();
  TakeAccessModifiers(l);
  const Address to = l.AddressOf(0, Space::kShared), from = l.AddressOf(1, Space::kGlobal);
  const Operand& size = l.operand(2);
  if (l.failed()) return;
  if (size.kind != Operand::kInteger || (size.bits != 4 && size.bits != 8 && size.bits != 16) || from.is_32bit)
    return l.Unknown();
  uint32_t source_size = kNoSlot;
  if (l.count() > 3) {
    if (l.RegisterType(l.operand(3)).IsPredicate()) {  // ignore-src: true means zeros
      return l.Unknown();
    }
    source_size = l.Source(3, kU32);
  }
  const auto offset = static_cast<uint64_t>(from.offset);
  const uint32_t extra = l.Extra({static_cast<uint32_t>(offset), static_cast<uint32_t>(offset >> 32)});
  Inst& inst = l.Emit(to.is_32bit ? &CopyAsync<MemorySpace::kShared, true>::Run : &CopyAsync<MemorySpace::kShared, false>::Run);
  inst.src[0] = to.slot;
  inst.src[1] = from.slot;
  inst.src[2] = source_size;
  inst.imm = static_cast<uint64_t>(to.offset);
  inst.small = static_cast<uint8_t>(size.bits);
  inst.extra = extra;
}

constexpr OpRow kRows[] = {
    {"ld", kAnyType, LowerLoad},       {"ldu", kAnyType, LowerLoad},       {"st", kAnyType, LowerStore},
    {"prefetch", kAnyType, LowerHint}, {"prefetchu", kAnyType, LowerHint}, {"applypriority", kAnyType, LowerHint},
    {"discard", kAnyType, LowerHint},  {"cp", kAnyType, LowerCp},
};

}  // namespace

std::span<const OpRow> MemoryOps() { return kRows; }

}  // namespace tessera::emulator

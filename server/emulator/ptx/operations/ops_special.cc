// Special registers. Source: PTX ISA 9.0, "Special Registers".
#include <sched.h>
#include <time.h>

#include <array>

#include "server/emulator/ptx/lower/lower.h"
#include "server/emulator/ptx/run/lanes.h"

namespace tessera::emulator {
namespace {

enum Dim : uint8_t {
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kZero,
  kOne,
  kWarpId,
  kWarpCount,
  kSmId,
  kSmCount,
  kDynamicShared,
  kTotalShared,
  kEnv1,
  kEnv2,
  kGridIdLow,
  kClockLow,
  kClockHigh,
  kTimerLow,
  kTimerHigh,
  kReservedShared
};

uint64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000ull + static_cast<uint64_t>(now.tv_nsec);
}
uint64_t Clock() { return __builtin_ia32_rdtsc(); }

uint32_t Uniform(Warp& w, uint8_t what) {
  const Launch& launch = *w.grid().launch;
  Block& block = w.block();
  const auto workspace = reinterpret_cast<uint64_t>(w.grid().workspace);
  switch (what) {
    case kNtidX: return launch.block.x;
    case kNtidY: return launch.block.y;
    case kNtidZ: return launch.block.z;
    case kCtaidX: return block.id_x;
    case kCtaidY: return block.id_y;
    case kCtaidZ: return block.id_z;
    case kNctaidX: return launch.grid.x;
    case kNctaidY: return launch.grid.y;
    case kNctaidZ: return launch.grid.z;
    case kOne: return 1;
    case kWarpId: return w.index();
    case kWarpCount: return (launch.block.x * launch.block.y * launch.block.z + kLaneCount - 1) / kLaneCount;
    case kSmId: return static_cast<uint32_t>(block.linear_index % 16);
    case kSmCount: return 16;
    case kDynamicShared: return launch.dynamic_shared_bytes;
    case kTotalShared: return w.grid().shared_bytes;
    // Where a cooperative launch keeps what grid-wide barriers need; zero says that the launch is not cooperative.
    case kEnv1: return launch.cooperative ? static_cast<uint32_t>(workspace >> 32) : 0;
    case kEnv2: return launch.cooperative ? static_cast<uint32_t>(workspace) : 0;
    case kGridIdLow: return static_cast<uint32_t>(w.grid().environment->grid_id);
    case kClockLow: return static_cast<uint32_t>(Clock());
    case kClockHigh: return static_cast<uint32_t>(Clock() >> 32);
    case kTimerLow: return static_cast<uint32_t>(Nanoseconds());
    case kTimerHigh: return static_cast<uint32_t>(Nanoseconds() >> 32);
    default: return 0;
  }
}

void ReadUniform(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const uint32_t value = Uniform(w, inst.small);
  ForLanes(mask, [&](uint32_t l) { d[l] = value; });
}
template <int kWhich>
void ReadWide(Warp& w, const Inst& inst, uint32_t mask) {
  uint64_t* d = w.Slot<uint64_t>(inst.dst);
  const uint64_t value = kWhich == 0                               ? Clock()
                         : kWhich == 1                             ? Nanoseconds()
                         : kWhich == 2                             ? w.grid().environment->grid_id
                         : w.grid().environment->graphs == nullptr ? 0
                                                                   : w.grid().environment->graphs->current();
  ForLanes(mask, [&](uint32_t l) { d[l] = value; });
}
template <int kAxis>
void ReadTid(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  const uint32_t* a = kAxis == 0 ? w.thread_x : kAxis == 1 ? w.thread_y : w.thread_z;
  ForLanes(mask, [&](uint32_t l) { d[l] = a[l]; });
}
void ReadLaneId(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  ForLanes(mask, [&](uint32_t l) { d[l] = l; });
}
template <int kWhich>
void ReadLaneMask(Warp& w, const Inst& inst, uint32_t mask) {
  uint32_t* d = w.Slot<uint32_t>(inst.dst);
  ForLanes(mask, [&](uint32_t l) {
    const uint32_t eq = 1u << l, lt = eq - 1;
    d[l] = kWhich == 0 ? eq : kWhich == 1 ? lt : kWhich == 2 ? lt | eq : kWhich == 3 ? ~(lt | eq) : ~lt;
  });
}

struct Row {
  std::string_view name;
  SpecialRegister value;
};
constexpr SpecialRegister U(uint8_t what) { return {&ReadUniform, kU32, what}; }
constexpr Row kRows[] = {
    {"%tid.x", {&ReadTid<0>, kU32, 0}},
    {"%tid.y", {&ReadTid<1>, kU32, 0}},
    {"%tid.z", {&ReadTid<2>, kU32, 0}},
    {"%ntid.x", U(kNtidX)},
    {"%ntid.y", U(kNtidY)},
    {"%ntid.z", U(kNtidZ)},
    {"%ctaid.x", U(kCtaidX)},
    {"%ctaid.y", U(kCtaidY)},
    {"%ctaid.z", U(kCtaidZ)},
    {"%nctaid.x", U(kNctaidX)},
    {"%nctaid.y", U(kNctaidY)},
    {"%nctaid.z", U(kNctaidZ)},
    {"%laneid", {&ReadLaneId, kU32, 0}},
    {"%warpid", U(kWarpId)},
    {"%nwarpid", U(kWarpCount)},
    {"%smid", U(kSmId)},
    {"%nsmid", U(kSmCount)},
    {"%gridid", {&ReadWide<2>, kU64, 0}},
    {"%current_graph_exec", {&ReadWide<3>, kU64, 0}},
    {"%lanemask_eq", {&ReadLaneMask<0>, kU32, 0}},
    {"%lanemask_lt", {&ReadLaneMask<1>, kU32, 0}},
    {"%lanemask_le", {&ReadLaneMask<2>, kU32, 0}},
    {"%lanemask_gt", {&ReadLaneMask<3>, kU32, 0}},
    {"%lanemask_ge", {&ReadLaneMask<4>, kU32, 0}},
    {"%clock", U(kClockLow)},
    {"%clock_hi", U(kClockHigh)},
    {"%clock64", {&ReadWide<0>, kU64, 0}},
    {"%globaltimer", {&ReadWide<1>, kU64, 0}},
    {"%globaltimer_lo", U(kTimerLow)},
    {"%globaltimer_hi", U(kTimerHigh)},
    {"%dynamic_smem_size", U(kDynamicShared)},
    {"%total_smem_size", U(kTotalShared)},
    {"%aggr_smem_size", U(kTotalShared)},
    {"%reserved_smem_offset_begin", U(kZero)},
    {"%reserved_smem_offset_end", U(kZero)},
    {"%reserved_smem_offset_cap", U(kZero)},
    {"%envreg1", U(kEnv1)},
    {"%envreg2", U(kEnv2)},
    {"%clusterid.x", U(kCtaidX)},
    {"%clusterid.y", U(kCtaidY)},
    {"%clusterid.z", U(kCtaidZ)},
    {"%nclusterid.x", U(kNctaidX)},
    {"%nclusterid.y", U(kNctaidY)},
    {"%nclusterid.z", U(kNctaidZ)},
    {"%cluster_ctaid.x", U(kZero)},
    {"%cluster_ctaid.y", U(kZero)},
    {"%cluster_ctaid.z", U(kZero)},
    {"%cluster_nctaid.x", U(kOne)},
    {"%cluster_nctaid.y", U(kOne)},
    {"%cluster_nctaid.z", U(kOne)},
    {"%cluster_ctarank", U(kZero)},
    {"%cluster_nctarank", U(kOne)},
};

}  // namespace

bool FindSpecialRegister(std::string_view name, SpecialRegister* special) {
  for (const Row& row : kRows) {
    if (row.name == name) {
      *special = row.value;
      return true;
    }
  }
  return false;
}

}  // namespace tessera::emulator

// Functions of the device runtime that PTX only declares: vprintf, malloc, free, __assertfail, cudaGraphSetConditional,
// cudaGraphLaunch, cudaGraphKernelNodeSetParam, cudaGraphKernelNodeSetEnabled, cudaGraphKernelNodeSetGridDim. Source: CUDA C++
// Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation", "Assertion".
#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "server/emulator/ptx/operations/memory.h"
#include "server/emulator/ptx/operations/printf_format.h"

namespace tessera::emulator {
namespace {

uint64_t Argument(Warp& w, const Transfer& from, uint32_t lane) {
  uint64_t value = 0;
  const uint32_t size = std::min<uint32_t>(from.size_bytes, 8);
  if (from.is_register)
    std::memcpy(&value, w.Slot<uint8_t>(from.slot) + static_cast<size_t>(lane) * from.size_bytes, size);
  else
    std::memcpy(&value, w.LocalLane(lane) + w.local_base() + from.local_offset, size);
  return value;
}

void Result(Warp& w, const Transfer& to, uint32_t lane, uint64_t value) {
  const uint32_t size = std::min<uint32_t>(to.size_bytes, 8);
  if (to.is_register)
    std::memcpy(w.Slot<uint8_t>(to.slot) + static_cast<size_t>(lane) * to.size_bytes, &value, size);
  else
    std::memcpy(w.LocalLane(lane) + w.local_base() + to.local_offset, &value, size);
}

// Reads `size` bytes at a generic address as `lane` sees it.
bool Read(Warp& w, const Inst& inst, uint32_t lane, uint64_t address, uint32_t size, void* out) {
  uint64_t addresses[kLaneCount] = {};
  uint8_t* pointers[kLaneCount] = {};
  addresses[lane] = address;
  if (!TranslateSlow(w, inst, 1u << lane, addresses, MemorySpace::kGeneric, size, false, pointers)) return false;
  std::memcpy(out, pointers[lane], size);
  return true;
}

constexpr uint32_t kMaxStringBytes = 64 << 10;

bool ReadString(Warp& w, const Inst& inst, uint32_t lane, uint64_t address, std::string* text) {
  text->clear();
  if (address == 0) {
    *text = "(null)";
    return true;
  }
  for (uint32_t i = 0; i < kMaxStringBytes; ++i) {
    char c = 0;
    if (!Read(w, inst, lane, address + i, 1, &c)) return false;
    if (c == 0) return true;
    text->push_back(c);
  }
  return true;
}

// The arguments of one vprintf: packed in memory, each aligned to its size.
class LaneArguments : public PrintArguments {
 public:
  LaneArguments(Warp& w, const Inst& inst, uint32_t lane, uint64_t at) : w_(w), inst_(inst), lane_(lane), at_(at) {}
  bool Next(uint32_t size, uint64_t* value) override {
    at_ = (at_ + size - 1) / size * size;
    *value = 0;
    const bool ok = Read(w_, inst_, lane_, at_, size, value);
    at_ += size;
    return ok;
  }
  bool String(uint64_t address, std::string* text) override { return ReadString(w_, inst_, lane_, address, text); }

 private:
  Warp& w_;
  const Inst& inst_;
  uint32_t lane_;
  uint64_t at_;
};

bool Fits(Warp& w, const Inst& inst, size_t arguments, const char* name) {
  const CallSite& site = w.code().calls[inst.extra];
  if (site.arguments.size() == arguments) return true;
  w.Fault(LaunchError::kIllegalInstruction, inst, fmt::format("{} is called with {} arguments", name, site.arguments.size()));
  return false;
}

void Printf(Warp& w, const Inst& inst, uint32_t mask) {
  if (!Fits(w, inst, 2, "vprintf")) return;
  const CallSite& site = w.code().calls[inst.extra];
  PrintSink* sink = w.grid().environment->print;
  if (sink == nullptr) return w.Fault(LaunchError::kUnsupported, inst, "printf has nowhere to print to");
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    std::string format, text;
    if (!ReadString(w, inst, lane, Argument(w, site.arguments[0], lane), &format)) return;
    LaneArguments arguments(w, inst, lane, Argument(w, site.arguments[1], lane));
    int count = 0;
    if (!FormatPrintf(format, arguments, &text, &count)) return;
    {
      std::lock_guard<std::mutex> lock(w.grid().mutex);
      sink->Print(text);
    }
    if (!site.results.empty()) Result(w, site.results[0], lane, static_cast<uint64_t>(static_cast<int64_t>(count)));
  }
}

void Malloc(Warp& w, const Inst& inst, uint32_t mask) {
  if (!Fits(w, inst, 1, "malloc")) return;
  const CallSite& site = w.code().calls[inst.extra];
  DeviceHeap* heap = w.grid().environment->heap;
  if (heap == nullptr) return w.Fault(LaunchError::kUnsupported, inst, "malloc is called, but this device has no heap");
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t address = heap->Allocate(Argument(w, site.arguments[0], lane));
    if (!site.results.empty()) Result(w, site.results[0], lane, address);
  }
}

void Free(Warp& w, const Inst& inst, uint32_t mask) {
  if (!Fits(w, inst, 1, "free")) return;
  const CallSite& site = w.code().calls[inst.extra];
  DeviceHeap* heap = w.grid().environment->heap;
  if (heap == nullptr) return w.Fault(LaunchError::kUnsupported, inst, "free is called, but this device has no heap");
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t address = Argument(w, site.arguments[0], lane);
    if (address != 0 && !heap->Free(address)) {
      return w.Fault(LaunchError::kIllegalAddress, inst,
                     fmt::format("free of {:#x}, which the device heap did not give out", address));
    }
  }
}

void AssertFail(Warp& w, const Inst& inst, uint32_t mask) {
  if (!Fits(w, inst, 5, "__assertfail")) return;
  const CallSite& site = w.code().calls[inst.extra];
  std::string lines;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    std::string message, file, function;
    if (!ReadString(w, inst, lane, Argument(w, site.arguments[0], lane), &message) ||
        !ReadString(w, inst, lane, Argument(w, site.arguments[1], lane), &file) ||
        !ReadString(w, inst, lane, Argument(w, site.arguments[3], lane), &function)) {
      return;
    }
    lines += fmt::format("{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.\n", file,
                         Argument(w, site.arguments[2], lane), function, w.block().id_x, w.block().id_y, w.block().id_z,
                         w.thread_x[lane], w.thread_y[lane], w.thread_z[lane], message);
  }
  lines.pop_back();
  w.grid().Fail(LaunchError::kAssert, lines);
}

void SetConditional(Warp& w, const Inst& inst, uint32_t mask) {
  if (!Fits(w, inst, 2, "cudaGraphSetConditional")) return;
  const CallSite& site = w.code().calls[inst.extra];
  ConditionSink* conditions = w.grid().environment->conditions;
  if (conditions == nullptr) return w.Fault(LaunchError::kUnsupported, inst, "this device has no conditional graph nodes");
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t handle = Argument(w, site.arguments[0], lane);
    if (!conditions->Set(handle, static_cast<uint32_t>(Argument(w, site.arguments[1], lane)))) {
      return w.Fault(LaunchError::kIllegalAddress, inst, fmt::format("{:#x} is no conditional handle", handle));
    }
  }
}

// The bytes of an argument that is a struct: always in memory.
template <typename T>
T Struct(Warp& w, const Transfer& from, uint32_t lane) {
  T value;
  if (from.is_register || from.size_bytes != sizeof(value)) return T{};
  std::memcpy(&value, w.LocalLane(lane) + w.local_base() + from.local_offset, sizeof(value));
  return value;
}

// Calls `ask(graphs, site, lane)` for each lane, which gives the result of the call, or nothing when it has failed the launch.
template <typename Ask>
void AskGraphs(Warp& w, const Inst& inst, uint32_t mask, size_t arguments, const char* name, Ask ask) {
  if (!Fits(w, inst, arguments, name)) return;
  const CallSite& site = w.code().calls[inst.extra];
  GraphSink* graphs = w.grid().environment->graphs;
  if (graphs == nullptr) return w.Fault(LaunchError::kUnsupported, inst, "this device has no graphs that kernels launch");
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const std::optional<uint32_t> result = ask(*graphs, site, lane);
    if (!result) return;
    if (*result == GraphSink::kNoSuchObject) {
      const uint64_t handle = Argument(w, site.arguments[0], lane);
      return w.Fault(LaunchError::kIllegalAddress, inst, fmt::format("{}: {:#x} is no such handle", name, handle));
    }
    if (!site.results.empty()) Result(w, site.results[0], lane, *result);
  }
}

void LaunchGraph(Warp& w, const Inst& inst, uint32_t mask) {
  AskGraphs(w, inst, mask, 2, "cudaGraphLaunch", [&](GraphSink& graphs, const CallSite& site, uint32_t lane) {
    return std::optional(graphs.Launch(Argument(w, site.arguments[0], lane), Argument(w, site.arguments[1], lane)));
  });
}

void SetNodeParameter(Warp& w, const Inst& inst, uint32_t mask) {
  constexpr uint64_t kParameterBytesMax = 32764;  // of a kernel
  AskGraphs(w, inst, mask, 4, "cudaGraphKernelNodeSetParam",
            [&](GraphSink& graphs, const CallSite& site, uint32_t lane) -> std::optional<uint32_t> {
              std::vector<std::byte> value(std::min(Argument(w, site.arguments[3], lane), kParameterBytesMax + 1));
              for (size_t i = 0; i < value.size(); ++i) {
                if (!Read(w, inst, lane, Argument(w, site.arguments[2], lane) + i, 1, &value[i])) return std::nullopt;
              }
              return graphs.SetParameter(Argument(w, site.arguments[0], lane), Argument(w, site.arguments[1], lane), value);
            });
}

void SetNodeEnabled(Warp& w, const Inst& inst, uint32_t mask) {
  AskGraphs(w, inst, mask, 2, "cudaGraphKernelNodeSetEnabled", [&](GraphSink& graphs, const CallSite& site, uint32_t lane) {
    return std::optional(
        graphs.SetEnabled(Argument(w, site.arguments[0], lane), (Argument(w, site.arguments[1], lane) & 0xff) != 0));
  });
}

void SetNodeGrid(Warp& w, const Inst& inst, uint32_t mask) {
  AskGraphs(w, inst, mask, 2, "cudaGraphKernelNodeSetGridDim", [&](GraphSink& graphs, const CallSite& site, uint32_t lane) {
    return std::optional(graphs.SetGrid(Argument(w, site.arguments[0], lane), Struct<Dim3>(w, site.arguments[1], lane)));
  });
}

}  // namespace

Handler FindBuiltin(std::string_view name) {
  if (name == "vprintf") return &Printf;
  if (name == "malloc") return &Malloc;
  if (name == "free") return &Free;
  if (name == "__assertfail") return &AssertFail;
  if (name == "cudaGraphSetConditional") return &SetConditional;
  if (name == "cudaGraphLaunch") return &LaunchGraph;
  if (name == "cudaGraphKernelNodeSetParam") return &SetNodeParameter;
  if (name == "cudaGraphKernelNodeSetEnabled") return &SetNodeEnabled;
  if (name == "cudaGraphKernelNodeSetGridDim") return &SetNodeGrid;
  return nullptr;
}

}  // namespace tessera::emulator

#include "generator.h"

#include <algorithm>
#include <random>

#include "order.h"

namespace order_programs {
namespace {

class Generator {
 public:
  Generator(uint64_t seed, bool native, bool two_processes)
      : random_(seed * 2654435761u + 17), seed_(seed), two_processes_(two_processes), order_(native) {}

  Program Make() {
    program_.buffer_bytes = WorldBytes(seed_);
    program_.content = seed_;
    ChooseBuffers();
    streams_ = Some(kStreamCount, 1, 3);
    const size_t count = 6 + Below(30);
    const bool two_threads = Below(4) == 0;
    const size_t fork = two_threads ? Below(count / 2) : count, join = two_threads ? fork + 1 + Below(count - fork) : count;
    for (size_t i = 0; i < count; ++i) {
      if (i == fork) Add(Plain(Kind::kFork));
      if (two_threads && i == join) Join();
      thread_ = order_.forked() ? static_cast<int>(Below(2)) : 0;
      AddAny();
    }
    if (order_.forked()) Join();
    return std::move(program_);
  }

 private:
  // Managed memory costs much time.
  void ChooseBuffers() {
    buffers_ = Some(kManaged, 2, 5);
    if (OneIn(6)) {
      buffers_.push_back(kManaged);
      if (OneIn(2)) buffers_.push_back(kManaged + 1);
    }
    if (OneIn(5)) buffers_.push_back(kShared);
  }

  size_t Below(size_t bound) { return std::uniform_int_distribution<size_t>(0, bound - 1)(random_); }
  bool OneIn(size_t times) { return Below(times) == 0; }
  template <typename T>
  T Pick(const std::vector<T>& values) {
    return values[Below(values.size())];
  }

  // Different numbers below `bound`, from `least` to `most` of them.
  std::vector<int> Some(int bound, size_t least, size_t most) {
    std::vector<int> all(static_cast<size_t>(bound));
    for (int i = 0; i < bound; ++i) all[static_cast<size_t>(i)] = i;
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(least + Below(most - least + 1));
    return all;
  }

  Operation Plain(Kind kind) {
    Operation operation;
    operation.kind = kind;
    operation.thread = kind == Kind::kFork || kind == Kind::kJoin ? 0 : thread_;
    operation.stream = Pick(streams_);
    operation.event = static_cast<int>(Below(kEventCount));
    operation.value = static_cast<uint32_t>(random_());
    return operation;
  }

  bool Add(const Operation& operation) {
    if (!order_.Add(operation)) return false;
    program_.operations.push_back(operation);
    Remember(operation);
    for (const Operation& node : operation.nodes) Remember(node);
    return true;
  }

  void Join() {
    thread_ = 1;
    Operation wait = Plain(Kind::kSyncStream);
    wait.stream = kPerThread;
    Add(wait);
    Add(Plain(Kind::kJoin));
  }

  // What operations touched lately is touched again.
  struct Range {
    int buffer;
    size_t begin, bytes;
  };
  void Remember(const Operation& operation) {
    if (operation.async || operation.kind == Kind::kKernel) last_stream_ = operation.stream;
    for (const Region* region : {&operation.from, &operation.to}) {
      if (region->buffer >= 0) hot_.push_back({region->buffer, region->offset, SpanBytes(operation, *region)});
    }
    if (hot_.size() > 6) hot_.erase(hot_.begin(), hot_.end() - 6);
  }

  size_t Size() {
    const size_t all = program_.buffer_bytes;
    const size_t limits[] = {64 << 10, 256 << 10, 1 << 20};
    switch (Below(6)) {
      case 0: return 4;
      case 1: return 64;
      case 2: return 1 + Below(all);
      case 3: return std::min(all, limits[Below(3)] + Below(3) - 1);
      case 4: return all / 2;
      default: return std::min<size_t>(all, 4 + Below(4096));
    }
  }

  // A region of rows, slices and width of `operation`, in one of `buffers`.
  bool Locate(Operation& operation, Region* region, const std::vector<int>& buffers) {
    const size_t all = program_.buffer_bytes;
    Range near{Pick(buffers), Below(all), 0};
    if (!hot_.empty() && !OneIn(3)) {
      const Range& hot = Pick(hot_);
      if (std::find(buffers.begin(), buffers.end(), hot.buffer) != buffers.end()) near = hot;
    }
    region->buffer = near.buffer;
    const bool rows = operation.rows > 1 || operation.slices > 1;
    region->pitch = rows ? operation.width + Below(2) * Below(1 + operation.width) : operation.width;
    // cuMemsetD2D asks for whole elements.
    if (operation.kind == Kind::kSet) region->pitch = region->pitch / 4 * 4;
    if (operation.kind == Kind::kKernel) region->pitch = 1 + Below(2) * Below(64);
    region->slice = operation.slices > 1 ? region->pitch * (operation.rows + Below(3)) : 0;
    const size_t span = SpanBytes(operation, *region);
    if (span > all) return false;
    region->offset = near.begin + (near.bytes > 1 && OneIn(3) ? Below(near.bytes) : 0);
    region->offset = std::min(region->offset, all - span);
    if (operation.kind == Kind::kSet) region->offset = region->offset / 4 * 4;
    return true;
  }

  void Shape(Operation& operation) {
    operation.width = Size();
    if (operation.call != Call::kRows && operation.call != Call::kSlices) return;
    operation.rows = 2 + Below(7);
    if (operation.call == Call::kSlices) operation.slices = 1 + Below(3);
    operation.width = std::max<size_t>(1, operation.width / (operation.rows * operation.slices));
  }

  std::vector<int> Buffers(bool host, bool device, bool pageable = true) {
    std::vector<int> some;
    for (int buffer : buffers_) {
      if (!pageable && kBuffers[buffer].place == Place::kPageable) continue;
      if (IsHost(buffer) ? host : device) some.push_back(buffer);
    }
    return some;
  }

  static bool Overlap(const Operation& operation) {
    return operation.to.buffer == operation.from.buffer &&
           operation.to.offset < operation.from.offset + SpanBytes(operation, operation.from) &&
           operation.from.offset < operation.to.offset + SpanBytes(operation, operation.to);
  }

  bool MakeCopy(Operation& operation, bool pageable) {
    operation.async = !OneIn(3);
    constexpr Call kCalls[] = {Call::kTyped, Call::kTyped, Call::kUnified, Call::kDevicePointers, Call::kRows, Call::kSlices};
    operation.call = kCalls[Below(std::size(kCalls))];
    const bool pointers = operation.call == Call::kDevicePointers;
    Shape(operation);
    const std::vector<int> from = Buffers(true, true, pageable && !pointers), to = Buffers(true, true, pageable && !pointers);
    if (from.empty() || !Locate(operation, &operation.from, from) || !Locate(operation, &operation.to, to)) return false;
    // Copies between host memories by device pointers: whether they wait is not documented.
    if (pointers && IsHost(operation.from.buffer) && IsHost(operation.to.buffer)) return false;
    return !Overlap(operation);
  }

  bool MakeSet(Operation& operation, bool host) {
    operation.async = !OneIn(3);
    operation.element_bytes = 1u << Below(3);
    if (OneIn(4)) operation.call = Call::kRows;
    if (OneIn(6)) return MakeWriteValue(operation);
    Shape(operation);
    operation.width = std::max<size_t>(4, operation.width / 4 * 4);
    const std::vector<int> to = Buffers(host, true, false);
    return !to.empty() && Locate(operation, &operation.to, to);
  }

  bool MakeWriteValue(Operation& operation) {
    operation.call = Call::kWriteValue;
    operation.async = true;
    operation.width = operation.element_bytes = 4;
    std::vector<int> to = Buffers(true, true, false);
    // Whether it may write to registered memory depends on the device; to memory of pools it may not (driver 580), and what it
    // does to managed memory is undefined.
    std::erase_if(to, [](int buffer) {
      const Place place = kBuffers[buffer].place;
      return place == Place::kRegistered || place == Place::kPool || place == Place::kManaged;
    });
    return !to.empty() && Locate(operation, &operation.to, to);
  }

  bool MakeKernel(Operation& operation) {
    operation.width = 1;
    operation.rows = 1 + Below(96);
    const std::vector<int> some = Buffers(true, true, false);
    if (some.empty() || !Locate(operation, &operation.to, some)) return false;
    if (OneIn(2)) return true;
    return Locate(operation, &operation.from, some) && !Overlap(operation);
  }

  bool MakeHostAccess(Operation& operation, bool write) {
    std::vector<int> some = Buffers(true, false);
    for (int buffer : buffers_) {
      if (IsManaged(buffer)) some.push_back(buffer);
    }
    operation.width = Size();
    return !some.empty() && Locate(operation, write ? &operation.to : &operation.from, some);
  }

  bool MakePrefetch(Operation& operation) {
    std::vector<int> some = buffers_;
    std::erase_if(some, [](int buffer) { return !IsManaged(buffer); });
    operation.width = Size();
    return !some.empty() && Locate(operation, &operation.from, some);
  }

  bool MakeRaise(Operation& operation) {
    operation.value = order_.raised(operation.event) + 1;
    return true;
  }

  // For the last time that it was raised rather than others.
  bool MakeWaitRaised(Operation& operation) {
    for (int i = 0; i < kFlagCount && order_.raised(operation.event) == 0; ++i)
      operation.event = (operation.event + 1) % kFlagCount;
    const uint32_t raised = order_.raised(operation.event);
    if (raised == 0) return false;
    operation.value = OneIn(3) ? static_cast<uint32_t>(1 + Below(raised)) : raised;
    return true;
  }

  bool MakeOther(Operation& operation) {
    if (std::find(buffers_.begin(), buffers_.end(), kShared) == buffers_.end()) return false;
    for (size_t i = 1 + Below(4); i > 0; --i) {
      constexpr Kind kKinds[] = {Kind::kCopy, Kind::kSet, Kind::kHostWrite, Kind::kHostRead};
      Operation node = Plain(kKinds[Below(std::size(kKinds))]);
      if (!MakeStep(node)) return false;
      operation.nodes.push_back(node);
    }
    return two_processes_;
  }

  // Of the second process, in bytes in a row.
  bool MakeStep(Operation& node) {
    const std::vector<int> shared{kShared};
    node.async = OneIn(2);
    node.stream = kLegacy;
    node.width = Size();
    if (node.kind == Kind::kSet) {
      node.element_bytes = 1u << Below(3);
      node.width = std::max<size_t>(4, node.width / 4 * 4);
    }
    if (node.kind == Kind::kHostRead) return Locate(node, &node.from, shared);
    if (!Locate(node, &node.to, shared)) return false;
    return node.kind != Kind::kCopy || (Locate(node, &node.from, shared) && !Overlap(node));
  }

  bool MakeNode(Operation& node) {
    switch (Below(4)) {
      case 0: node.kind = Kind::kKernel; return MakeKernel(node);
      case 1:
        node.kind = Kind::kSet;
        if (!MakeSet(node, false) || node.call == Call::kWriteValue) return false;
        node.async = true;
        return true;
      default:
        node.kind = Kind::kCopy;
        if (!MakeCopy(node, false)) return false;
        node.async = true;
        node.value -= node.value % 4;  // InBatch() is false
        return !(IsHost(node.from.buffer) && IsHost(node.to.buffer));
    }
  }

  bool MakeAny(Operation& operation) {
    const size_t choice = Below(111);
    const auto become = [&](Kind kind) {
      operation.kind = kind;
      return true;
    };
    if (choice < 45) return become(Kind::kCopy) && MakeCopy(operation, true);
    if (choice < 53) return become(Kind::kSet) && MakeSet(operation, true);
    if (choice < 68) return become(Kind::kKernel) && MakeKernel(operation);
    if (choice < 72) return become(Kind::kHostFunctionWrite) && MakeHostAccess(operation, true);
    if (choice < 75) return become(Kind::kHostFunctionRead) && MakeHostAccess(operation, false);
    if (choice < 80) return become(Kind::kHostWrite) && MakeHostAccess(operation, true);
    if (choice < 84) return become(Kind::kHostRead) && MakeHostAccess(operation, false);
    if (choice < 88) return become(Kind::kRecord);
    if (choice < 92) return become(Kind::kWaitEvent);
    if (choice < 94) return become(Kind::kSyncStream);
    if (choice < 95) return become(Kind::kSyncEvent);
    if (choice < 96) return become(Kind::kPollStream);
    if (choice < 97) return become(Kind::kPollEvent);
    if (choice < 98) return become(Kind::kSyncContext);
    if (choice < 101) return become(Kind::kRaise) && MakeRaise(operation);
    if (choice < 105) return become(Kind::kWaitRaised) && MakeWaitRaised(operation);
    if (choice < 107) return become(Kind::kPrefetch) && MakePrefetch(operation);
    if (choice < 109) return become(Kind::kOther) && MakeOther(operation);
    become(Kind::kGraph);
    for (size_t i = 1 + Below(4); i > 0; --i) {
      Operation node = Plain(Kind::kCopy);
      node.stream = operation.stream;
      if (!MakeNode(node)) return false;
      operation.nodes.push_back(node);
    }
    return true;
  }

  // The first of some proposals that is ordered.
  void AddAny() {
    for (int i = 0; i < 30; ++i) {
      Operation operation = Plain(Kind::kCopy);
      if (!MakeAny(operation)) continue;
      const bool says = operation.kind == Kind::kRaise || operation.kind == Kind::kRecord;
      if (says && !OneIn(3)) operation.stream = last_stream_;
      if (!Add(operation)) continue;
      if (says && OneIn(2)) AddWaiting(operation);
      return;
    }
  }

  // Has a stream wait for what was recorded or raised just now, and then touch something.
  void AddWaiting(const Operation& said) {
    Operation wait = Plain(said.kind == Kind::kRaise ? Kind::kWaitRaised : Kind::kWaitEvent);
    wait.event = said.event;
    wait.value = said.value;
    if (wait.stream == said.stream || !Add(wait)) return;
    for (int i = 0; i < 10; ++i) {
      Operation next = Plain(OneIn(2) ? Kind::kCopy : Kind::kKernel);
      next.stream = wait.stream;
      if (!(next.kind == Kind::kCopy ? MakeCopy(next, true) : MakeKernel(next))) continue;
      next.async = next.kind == Kind::kCopy;
      if (Add(next)) return;
    }
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  const bool two_processes_;
  Program program_;
  Order order_;
  int thread_ = 0;
  std::vector<int> buffers_, streams_;
  int last_stream_ = kLegacy;  // that had work
  std::vector<Range> hot_;
};

}  // namespace

size_t WorldBytes(uint64_t seed) {
  const uint64_t world = seed / kProgramsOfWorld;
  if (world % 40 == 39) return 3 << 20;
  if (world % 40 == 19) return (1 << 20) + 4096;
  if (world % 10 == 4) return 160 << 10;
  return world % 2 == 0 ? 256 : 8192;
}

Program Generate(uint64_t seed, bool native, bool two_processes) { return Generator(seed, native, two_processes).Make(); }

Program Without(const Program& program, size_t index) {
  Program smaller = program;
  smaller.operations.erase(smaller.operations.begin() + static_cast<std::ptrdiff_t>(index));
  return smaller;
}

}  // namespace order_programs

#include "order.h"

#include <algorithm>
#include <cstdint>

namespace order_programs {
namespace {

bool IsBlocking(int stream) {
  return kStreams[stream].kind == StreamKind::kBlocking || kStreams[stream].kind == StreamKind::kPerThread;
}

bool WaitsFor(int stream, int thread, int other, int other_thread) {
  if (stream == other) return stream != kPerThread || thread == other_thread;
  return (stream == kLegacy && IsBlocking(other)) || (other == kLegacy && IsBlocking(stream));
}

}  // namespace

Order::Set Order::Before(const Thread& thread, int number, int stream, bool alone) const {
  Set before = thread.over;
  for (auto work = works_.rbegin(); work != works_.rend(); ++work) {
    if (before[work->id] || !thread.given[work->id] || !WaitsFor(stream, number, work->stream, work->thread)) continue;
    if (stream != work->stream && (alone || work->wait)) continue;
    before |= work->before;
    before.set(work->id);
  }
  return before;
}

Order::Access Order::AccessOf(const Operation& operation, const Region& region, bool write, size_t id) {
  const Kind kind = operation.kind;
  const bool by_host =
      kind == Kind::kHostFunctionWrite || kind == Kind::kHostFunctionRead || kind == Kind::kHostWrite || kind == Kind::kHostRead;
  if (by_host && IsManaged(region.buffer)) return {id, region.buffer, 0, SIZE_MAX, true};
  return {id, region.buffer, region.offset, region.offset + SpanBytes(operation, region), write};
}

bool Order::MayTouch(const Operation& operation, const Region& region, bool write, const Set& before) const {
  if (region.buffer < 0) return true;
  const Access next = AccessOf(operation, region, write, next_);
  for (const Access& access : accesses_) {
    if (access.buffer != next.buffer || access.end <= next.begin || next.end <= access.begin) continue;
    if ((next.write || access.write) && !before[access.id]) return false;
  }
  return true;
}

void Order::Touch(const Operation& operation, const Region& region, bool write, size_t id) {
  if (region.buffer >= 0) accesses_.push_back(AccessOf(operation, region, write, id));
}

void Order::Give(int number, int stream, size_t id, const Set& before, bool wait) {
  works_.push_back({id, stream, number, wait, before});
  threads_[number].given.set(id);
}

bool Order::AddInStream(const Operation& operation, int stream, bool over_at_return) {
  Thread& thread = threads_[operation.thread];
  const Set before = Before(thread, operation.thread, stream);
  if (!MayTouch(operation, operation.from, false, before) || !MayTouch(operation, operation.to, true, before)) return false;
  const size_t id = next_++;
  Touch(operation, operation.from, false, id);
  Touch(operation, operation.to, true, id);
  Give(operation.thread, stream, id, before);
  if (over_at_return) {
    thread.over |= before;
    thread.over.set(id);
  }
  return true;
}

bool Order::AddCopy(const Operation& operation) {
  Thread& thread = threads_[operation.thread];
  const int stream = operation.async ? operation.stream : kLegacy;
  const Place from = kBuffers[operation.from.buffer].place, to = kBuffers[operation.to.buffer].place;
  const bool from_host = IsHost(operation.from.buffer), to_host = IsHost(operation.to.buffer);
  const bool managed = from == Place::kManaged || to == Place::kManaged;
  if (from_host && to_host) return AddHostAccess(operation);
  if (from == Place::kPageable) {
    Set before = Before(thread, operation.thread, stream);
    if (!MayTouch(operation, operation.from, false, thread.over) || !MayTouch(operation, operation.to, true, before))
      return false;
    const size_t read = next_++, id = next_++;
    Touch(operation, operation.from, false, read);
    Touch(operation, operation.to, true, id);
    before.set(read);
    Give(operation.thread, stream, id, before);
    if (!managed) thread.over.set(read);
    return true;
  }
  if (native_ && operation.async && from_host && operation.width * operation.rows * operation.slices <= kReadEarlyBytes &&
      !MayTouch(operation, operation.from, false, Before(thread, operation.thread, stream, true))) {
    return false;
  }
  // Of device pointers the documents say nothing.
  const bool waits = operation.call != Call::kDevicePointers && (from_host || to_host);
  return AddInStream(operation, stream, !managed && (to == Place::kPageable || (!operation.async && waits)));
}

bool Order::AddHostAccess(const Operation& operation) {
  Set& over = threads_[operation.thread].over;
  if (!MayTouch(operation, operation.from, false, over) || !MayTouch(operation, operation.to, true, over)) return false;
  const size_t id = next_++;
  Touch(operation, operation.from, false, id);
  Touch(operation, operation.to, true, id);
  over.set(id);
  return true;
}

bool Order::AddRecord(const Operation& operation) {
  const Set before = Before(threads_[operation.thread], operation.thread, operation.stream);
  const size_t id = next_++;
  Give(operation.thread, operation.stream, id, before);
  records_[operation.event] = before;
  records_[operation.event].set(id);
  return true;
}

bool Order::AddFlag(const Operation& operation) {
  const int number = operation.thread;
  const bool raise = operation.kind == Kind::kRaise;
  std::vector<Raise>& raises = raises_[operation.event];
  Set before = Before(threads_[number], number, operation.stream, !raise);
  if (raise) {
    if (operation.value <= raised(operation.event) || (!raises.empty() && (raises.back().over & ~before).any())) return false;
  } else {
    const auto first = std::find_if(raises.begin(), raises.end(), [&](const Raise& one) { return one.value >= operation.value; });
    if (first == raises.end()) return false;
    before |= first->over;
  }
  const size_t id = next_++;
  Give(number, operation.stream, id, before, !raise);
  if (raise) raises.push_back({operation.value, before | Set().set(id)});
  return true;
}

bool Order::AddPrefetch(const Operation& operation) {
  const int number = operation.thread;
  const Set before = Before(threads_[number], number, operation.stream, true);
  if (!MayTouch(operation, operation.from, false, before)) return false;
  const size_t id = next_++;
  Touch(operation, operation.from, false, id);
  Give(number, operation.stream, id, before, true);
  return true;
}

bool Order::AddGraph(const Operation& operation) {
  Order with = *this;
  for (Operation node : operation.nodes) {
    node.thread = operation.thread;
    if (!with.AddInStream(node, operation.stream, false)) return false;
  }
  *this = std::move(with);
  return true;
}

void Order::AwaitStream(int number, int stream) {
  Thread& thread = threads_[number];
  for (const Work& work : works_) {
    const bool own = stream != kPerThread || work.thread == number;
    if (work.stream != stream || !own || !thread.given[work.id]) continue;
    thread.over |= work.before;
    thread.over.set(work.id);
  }
}

void Order::AwaitAll(int number) {
  Thread& thread = threads_[number];
  for (const Work& work : works_) {
    if (thread.given[work.id]) thread.over |= work.before | Set().set(work.id);
  }
}

bool Order::Add(const Operation& operation) {
  if (next_ + 2 + operation.nodes.size() > kMost) return false;
  const int number = operation.thread;
  if (number == 1 && !forked_) return false;
  Thread& thread = threads_[number];
  // While there are two threads, each has events and flags of its own.
  const bool own_event = !forked_ || operation.event % 2 == number;
  switch (operation.kind) {
    case Kind::kCopy: return AddCopy(operation);
    case Kind::kSet: {
      const int stream = operation.async ? operation.stream : kLegacy;
      return AddInStream(operation, stream, !operation.async && IsHost(operation.to.buffer));
    }
    case Kind::kKernel:
    case Kind::kHostFunctionWrite:
    case Kind::kHostFunctionRead: return AddInStream(operation, operation.stream, false);
    case Kind::kHostWrite:
    case Kind::kHostRead: return AddHostAccess(operation);
    case Kind::kRecord: return own_event && AddRecord(operation);
    case Kind::kRaise:
    case Kind::kWaitRaised: return own_event && AddFlag(operation);
    case Kind::kPrefetch: return AddPrefetch(operation);
    case Kind::kWaitEvent: {
      if (!own_event || !recorded(operation.event)) return false;
      const size_t id = next_++;
      Give(number, operation.stream, id, Before(thread, number, operation.stream, true) | records_[operation.event], true);
      return true;
    }
    case Kind::kSyncStream:
    case Kind::kPollStream: AwaitStream(number, operation.stream); return true;
    case Kind::kSyncEvent:
    case Kind::kPollEvent:
      if (!own_event || !recorded(operation.event)) return false;
      thread.over |= records_[operation.event];
      return true;
    case Kind::kOther:
      if (forked_) return false;
      AwaitAll(number);
      return true;
    case Kind::kSyncContext: AwaitAll(number); return true;
    case Kind::kGraph: return AddGraph(operation);
    case Kind::kFork:
      if (forked_ || joined_) return false;
      forked_ = true;
      threads_[1] = threads_[0];
      return true;
    case Kind::kJoin:
      if (!forked_) return false;
      // What becomes of the work of a thread's stream when the thread ends is not documented.
      for (const Work& work : works_) {
        if (work.stream == kPerThread && work.thread == 1 && !threads_[1].over[work.id]) return false;
      }
      forked_ = false;
      joined_ = true;
      threads_[0].over |= threads_[1].over;
      threads_[0].given |= threads_[1].given;
      return true;
  }
  return false;
}

bool IsOrdered(const Program& program, bool native) {
  Order order(native);
  for (const Operation& operation : program.operations) {
    if (!order.Add(operation)) return false;
  }
  return !order.forked();
}

}  // namespace order_programs

#include "program.h"

#include <cstdio>

namespace order_programs {
namespace {

std::string Place(const Region& region) {
  return std::string(kBuffers[region.buffer].name) + "+" + std::to_string(region.offset);
}

std::string Shape(const Operation& operation, const Region& region) {
  if (operation.rows == 1 && operation.slices == 1) return "";
  std::string text = " pitch " + std::to_string(region.pitch);
  if (operation.slices > 1) text += " slice " + std::to_string(region.slice);
  return text;
}

std::string Size(const Operation& operation) {
  std::string text = std::to_string(operation.width);
  if (operation.rows > 1 || operation.slices > 1) text += "x" + std::to_string(operation.rows);
  if (operation.slices > 1) text += "x" + std::to_string(operation.slices);
  return text + " bytes";
}

const char* CallName(const Operation& operation) {
  if (operation.call == Call::kWriteValue) return "StreamWriteValue";
  if (operation.kind == Kind::kSet) return operation.call == Call::kRows ? "MemsetD2D" : "MemsetD";
  switch (operation.call) {
    case Call::kTyped:
      if (InBatch(operation)) return "MemcpyBatch";
      if (IsHost(operation.to.buffer)) return IsHost(operation.from.buffer) ? "Memcpy" : "MemcpyDtoH";
      return IsHost(operation.from.buffer) ? "MemcpyHtoD" : "MemcpyDtoD";
    case Call::kUnified: return "Memcpy";
    case Call::kDevicePointers: return "MemcpyDtoD";
    case Call::kRows: return "Memcpy2D";
    case Call::kSlices: return "Memcpy3D";
    case Call::kWriteValue: break;
  }
  return "";
}

std::string Moves(const Operation& operation) {
  std::string text = operation.from.buffer >= 0 ? Place(operation.from) + Shape(operation, operation.from) : "";
  if (operation.to.buffer >= 0) {
    text += (text.empty() ? "-> " : " -> ") + Place(operation.to) + Shape(operation, operation.to);
  }
  return text + ", " + Size(operation);
}

std::string Nodes(const Operation& operation) {
  std::string text = " {";
  for (const Operation& node : operation.nodes) text += " " + Text(node) + ";";
  return text + " }";
}

}  // namespace

bool InBatch(const Operation& operation) {
  const auto place = [](const Region& region) { return kBuffers[region.buffer].place; };
  return operation.kind == Kind::kCopy && operation.call == Call::kTyped && operation.async && operation.stream != kLegacy &&
         operation.value % 4 == 3 && place(operation.to) != Place::kPageable && place(operation.from) != Place::kPageable &&
         !(IsHost(operation.to.buffer) && IsHost(operation.from.buffer));
}

size_t SpanBytes(const Operation& operation, const Region& region) {
  return (operation.slices - 1) * region.slice + (operation.rows - 1) * region.pitch + operation.width;
}

bool Contains(const Operation& operation, const Region& region, size_t byte) {
  for (size_t z = 0; z < operation.slices; ++z) {
    for (size_t y = 0; y < operation.rows; ++y) {
      const size_t row = region.offset + z * region.slice + y * region.pitch;
      if (byte >= row && byte < row + operation.width) return true;
    }
  }
  return false;
}

std::string Text(const Operation& operation) {
  const std::string stream = std::string(" in ") + kStreams[operation.stream].name;
  const std::string event = "event" + std::to_string(operation.event);
  const std::string flag = "flag" + std::to_string(operation.event) + " " + std::to_string(operation.value);
  const std::string async = operation.async ? "Async" : "";
  switch (operation.kind) {
    case Kind::kCopy: return CallName(operation) + async + " " + Moves(operation) + (operation.async ? stream : "");
    case Kind::kSet:
      return CallName(operation) + std::to_string(8 * operation.element_bytes) + async + " " + Moves(operation) +
             (operation.async ? stream : "");
    case Kind::kKernel: return "Kernel " + Moves(operation) + stream;
    case Kind::kHostFunctionWrite: return "HostFunction writes " + Moves(operation) + stream;
    case Kind::kHostFunctionRead: return "HostFunction reads " + Moves(operation) + stream;
    case Kind::kHostWrite: return "host writes " + Moves(operation);
    case Kind::kHostRead: return "host reads " + Moves(operation);
    case Kind::kRecord: return "EventRecord " + event + stream;
    case Kind::kWaitEvent: return "StreamWaitEvent " + event + stream;
    case Kind::kSyncStream: return "StreamSynchronize" + stream;
    case Kind::kSyncEvent: return "EventSynchronize " + event;
    case Kind::kSyncContext: return "CtxSynchronize";
    case Kind::kPollStream: return "StreamQuery until idle" + stream;
    case Kind::kPollEvent: return "EventQuery until done, " + event;
    case Kind::kRaise: return "StreamWriteValue " + flag + stream;
    case Kind::kWaitRaised: return "StreamWaitValue " + flag + stream;
    case Kind::kPrefetch:
      return "MemPrefetchAsync " + Moves(operation) + (operation.value % 2 == 0 ? " to the device" : " to the host") + stream;
    case Kind::kOther: return "CtxSynchronize, then the second process" + Nodes(operation);
    case Kind::kGraph: return "GraphLaunch" + stream + Nodes(operation);
    case Kind::kFork: return "second thread begins";
    case Kind::kJoin: return "second thread has ended";
  }
  return "";
}

std::string Text(const Program& program) {
  std::string text = "buffers of " + std::to_string(program.buffer_bytes) + " bytes\n";
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& operation = program.operations[i];
    text += (i < 10 ? " " : "") + std::to_string(i) + (operation.thread == 0 ? "  " : "          ") + Text(operation) + "\n";
  }
  return text;
}

}  // namespace order_programs

#include "client-stub/session/trace_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "client-stub/session/trace_lines.h"

namespace tessera {

TracedWork::TracedWork(std::span<const TraceWork> work, std::span<const std::string> names) : work_(work) {
  for (const std::string& name : names) kernels_.push_back(TraceKernel(name));
  for (const TraceWork& one : work_) by_sequence_[one.sequence] = &one;
}

const std::string& TracedWork::NameOf(const TraceWork& work) const {
  return work.name < kernels_.size() ? kernels_[work.name] : none_;
}

const std::string& TracedWork::KernelOf(uint64_t sequence) const {
  const auto found = by_sequence_.find(sequence);
  return found == by_sequence_.end() ? none_ : NameOf(*found->second);
}

void TracedWork::AddLanes(size_t process, const std::string& name, uint64_t ahead_ns, std::string* text) const {
  std::map<uint32_t, std::vector<const TraceWork*>> streams;
  for (const TraceWork& work : work_) {
    if (work.end_ns != 0) streams[work.stream].push_back(&work);
  }
  if (!streams.empty()) *text += ",\n" + TraceProcessLine(process, name);
  for (auto& [stream, lane] : streams) {
    *text += ",\n" + TraceThreadLine(process, stream, fmt::format("stream {}", stream));
    std::ranges::sort(lane, {}, &TraceWork::begin_ns);
    uint64_t last_end_ns = 0;
    for (const TraceWork* const work : lane) {
      const uint64_t begin_ns = std::max(work->begin_ns - ahead_ns, last_end_ns);
      last_end_ns = std::max(work->end_ns - ahead_ns, begin_ns);
      *text += fmt::format(
          ",\n{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"gpu\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{\"record\":{}}"
          "}}}",
          NameOf(*work), process, stream, TraceUs(begin_ns), TraceUs(last_end_ns - begin_ns), work->sequence);
    }
  }
}

uint64_t TracedWork::unmeasured() const {
  return static_cast<uint64_t>(std::ranges::count(work_, uint64_t{0}, &TraceWork::end_ns));
}

}  // namespace tessera

#include "scheduler/simulate/loads_of_trace.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace tessera {
namespace {

// A session of a trace, while LoadsOf() reads it.
struct Followed {
  size_t load = 0;
  size_t script = 0;
  bool wants = false, busy = false;
  int64_t busy_since_ns = 0;
  int64_t rested_since_ns = 0;
  int64_t rest_ns = 0;  // before the work that goes on
  int64_t work_ns = 0;
};

void Follow(Followed& session, const SchedulerEvent& event, Load::Script& script) {
  const bool was_active = session.wants || session.busy;
  if (event.kind == TraceKind::kWants) {
    session.wants = event.value == 1;
  } else if ((event.value == 1) != session.busy) {
    session.busy = event.value == 1;
    if (session.busy) session.busy_since_ns = event.at_ns;
    if (!session.busy) session.work_ns += std::max<int64_t>(0, event.at_ns - session.busy_since_ns);
  }
  const bool active = session.wants || session.busy;
  if (!was_active && active) session.rest_ns = std::max<int64_t>(0, event.at_ns - session.rested_since_ns);
  if (!was_active || active) return;
  session.rested_since_ns = event.at_ns;
  if (session.work_ns > 0) script.pieces.push_back({session.rest_ns, session.work_ns});
  session.work_ns = 0;
}

}  // namespace

std::vector<Load> LoadsOf(const SchedulerTrace& trace) {
  std::vector<Load> loads;
  std::map<uint32_t, size_t> vgpus;
  std::map<uint32_t, Followed> sessions;
  std::set<std::string> names;
  int64_t first_ns = kNever;
  for (const SchedulerEvent& event : trace.events) first_ns = std::min(first_ns, event.at_ns);
  for (SchedulerEvent event : trace.events) {
    event.at_ns -= first_ns;
    switch (event.kind) {
      case TraceKind::kVgpu:
        vgpus[event.id] = loads.size();
        loads.push_back({.spec = event.spec});
        // One that was gone and came again is another one here.
        while (!names.insert(loads.back().spec.name).second) loads.back().spec.name += "-";
        break;
      case TraceKind::kCame: {
        const auto vgpu = vgpus.find(static_cast<uint32_t>(event.value));
        if (vgpu == vgpus.end()) break;
        Load& load = loads[vgpu->second];
        sessions[event.id] = {.load = vgpu->second, .script = load.scripts.size(), .rested_since_ns = event.at_ns};
        load.scripts.push_back({.begin_ns = event.at_ns});
        break;
      }
      case TraceKind::kWants:
      case TraceKind::kBusy:
      case TraceKind::kLeft: {
        const auto session = sessions.find(event.id);
        if (session == sessions.end()) break;
        Load::Script& script = loads[session->second.load].scripts[session->second.script];
        if (event.kind != TraceKind::kLeft) {
          Follow(session->second, event, script);
          break;
        }
        for (const TraceKind kind : {TraceKind::kWants, TraceKind::kBusy}) {
          Follow(session->second, {.at_ns = event.at_ns, .kind = kind}, script);
        }
        script.end_ns = std::max(event.at_ns, script.begin_ns + 1);
        sessions.erase(session);
        break;
      }
      default: break;
    }
  }
  return loads;
}

}  // namespace tessera

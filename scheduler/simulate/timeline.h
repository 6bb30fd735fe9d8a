// When each vGPU ran, held the token and waited, made from a trace for pictures and reports. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/simulate/trace.h"

namespace tessera {

// [begin_ns, end_ns)
struct Interval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

// One vGPU. All intervals are in order of time, and none touch.
struct TimelineLane {
  VgpuSpec spec{};  // as it was last
  int64_t came_ns = 0;
  std::vector<Interval> ran{};      // any of its sessions was busy
  std::vector<Interval> tokens{};   // its gates were open in metered mode
  std::vector<Interval> wanted{};   // any of its sessions waited or was busy
  std::vector<int64_t> waits_ns{};  // how long each wait for the token took
};

struct Timeline {
  std::vector<TimelineLane> lanes;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t decisions = 0;
};

class TimelineBuilder {
 public:
  void Add(const SchedulerEvent& event);
  // Open intervals end with the last event.
  Timeline Finish();

 private:
  struct Session {
    size_t lane = 0;
    int64_t busy_since_ns = -1;
    int64_t wants_since_ns = -1;
  };
  struct Open {
    int64_t token_since_ns = -1;
    int64_t token_until_ns = 0;
    int64_t waits_since_ns = -1;
    uint32_t wanting = 0;
  };

  void EndSession(Session& session, int64_t at_ns);
  void SetWants(Session& session, bool wants, int64_t at_ns);
  void SetBusy(Session& session, bool busy, int64_t at_ns);
  void SetGate(size_t lane, const GateState& gate, int64_t at_ns);
  void EndWait(size_t lane, int64_t at_ns);

  Timeline timeline_;
  std::vector<Open> open_;  // by lane
  std::map<uint32_t, size_t> lane_of_vgpu_;
  std::map<uint32_t, Session> sessions_;
  bool began_ = false;
};

// In order, joined where they touch or overlap.
std::vector<Interval> Joined(std::vector<Interval> intervals);

}  // namespace tessera

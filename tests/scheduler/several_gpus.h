// Several GPUs of one server and the programs on them, in virtual time: what sets of tokens come to.
//
//   SeveralGpus server(2, true);
//   server.Add({.name = "a", .request = 0.5, .steps = {{0, kMs}, {1, kMs}}});
//   server.RunFor(2 * kSecondNs);
//
// A program launches the kernels of a step in their order, each on its GPU, waits for all of them, rests, and begins again. Its
// worker does as server/worker/gate does: what waits for one GPU keeps back what is behind it, and it is busy on all GPUs that it
// has begun to use until all of them are idle. A GPU gives sessions that run at once equal parts. Each GPU's record is kept.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/simulate/traced_gpu_time.h"
#include "scheduler/token_sets.h"

namespace tessera {

struct Launch {
  size_t gpu = 0;
  int64_t kernel_ns = kMillisecondNs;
};

struct Program {
  std::string name;
  double request = 0;  // on each of its GPUs
  double limit = 1;
  std::vector<Launch> steps{};
  bool collective = false;         // the first kernels in its GPUs' queues run only while all of them do
  bool one_after_another = false;  // each kernel waits for the one before
  int64_t rest_ns = 0;             // between steps
  int64_t set_changes_ns = 0;  // so often its set is that of the first `set_gpus` of its GPUs instead of all, and back; 0: never
  size_t set_gpus = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = kNever;
  Priority priority = Priority::kNormal;
};

class SeveralGpus {
 public:
  static constexpr int64_t kStepNs = 20'000;

  // `sets`: sessions with several GPUs get their tokens together.
  SeveralGpus(size_t gpus, bool sets, std::string_view policy = "fair");
  void Add(const Program& program);
  void RunFor(int64_t length_ns);

  struct Figures {
    int64_t steps = 0;
    int64_t last_step_ns = 0;           // when one was done last
    int64_t longest_step_ns = 0;        // and rest
    std::vector<int64_t> billed_ns{};   // by GPU
    std::vector<int64_t> charged_ns{};  // what a GPU idled for it
  };
  Figures figures(size_t program) const;
  int64_t now_ns() const { return now_ns_; }
  const GpuTime& gpu(size_t gpu) const { return gpus_[gpu].time->time(); }
  // How long it idled at a time at most, and in all, while a program other than the one that it was held for waited for it.
  int64_t longest_idle_ns(size_t gpu) const { return gpus_[gpu].longest_idle_ns; }
  int64_t idle_ns(size_t gpu) const { return gpus_[gpu].idle_ns; }
  // Of that, until a set had come.
  int64_t held_ns(size_t gpu) const { return gpus_[gpu].held_ns; }
  int64_t orders() const { return orders_; }
  // Of a GPU, as a file.
  std::string record(size_t gpu) const { return gpus_[gpu].record; }

 private:
  // A program's part in one GPU.
  struct Lane {
    bool used = false;
    VgpuId vgpu = 0;
    SessionId session = 0;
    std::deque<int64_t> queue{};  // what is left of each kernel
    bool wants = false, busy = false;
    bool told_wants = false, told_busy = false;
    bool Queued() const { return !queue.empty(); }
  };
  struct Running {
    Program program;
    std::vector<Lane> lanes;
    size_t next = 0;  // of its steps, to be launched
    int64_t rests_until_ns = 0;
    int64_t began_ns = 0;
    int64_t steps = 0, last_step_ns = 0, longest_step_ns = 0;
  };
  struct Gpu {
    std::unique_ptr<TracedGpuTime> time;
    std::string record;
    int64_t ask_again_ns = 0;
    bool news = true;
    GpuMode mode = GpuMode::kFree;
    int64_t idle_since_ns = -1, longest_idle_ns = 0, idle_ns = 0, held_ns = 0;
  };

  // Tells the set of a program, which is that of so many of its GPUs.
  void SetParts(size_t program, size_t count);
  void Act(Running& each);
  void Work(Running& each);
  void Report(Running& each);
  void Decide(size_t gpu);
  void Answer();
  void Carry(const SetOrder& order);
  void SeeIdle();
  bool MayLaunch(const Lane& lane, const Launch& launch) const;
  int64_t BusyOn(size_t gpu) const;

  const bool sets_;
  std::vector<Gpu> gpus_;
  std::vector<std::unique_ptr<Running>> programs_;
  TokenSets token_sets_;
  int64_t now_ns_ = 0;
  int64_t orders_ = 0;
};

}  // namespace tessera

// `fixed`: static slots for ever. Nobody gets more than its slot, and the slot of who does not want it stays idle.
//
// Who ran beyond the end of a slot has that much less of the next one.
#include <algorithm>

#include "scheduler/burst_estimate.h"
#include "scheduler/policy.h"
#include "scheduler/static_slots.h"

namespace tessera {
namespace {

class FixedPolicy : public Policy {
 public:
  std::string_view name() const override { return "fixed"; }
  bool MetersAlways() const override { return true; }

  void Advance(const GpuView& gpu) override {
    shares_.clear();
    slotted_.clear();
    for (const VgpuView& view : gpu.vgpus) {
      if (view.sessions == 0 && view.spec->request <= 0) continue;
      slotted_.push_back(&view);
      shares_.push_back({view.spec->request, view.spec->limit});
    }
    slots_ = DivideIntoSlots(shares_);
  }

  Choice Next(const GpuView& gpu) override {
    Choice choice;
    for (size_t i = 0; i < slotted_.size(); ++i) {
      if (!slotted_[i]->eligible) continue;
      const int64_t length_ns = slots_[i].OpenUntilNs(gpu.token_begin_ns) - gpu.token_begin_ns - OverrunNs(gpu, i);
      if (length_ns >= ShortestNs(slots_[i])) return {slotted_[i]->id, length_ns};
      choice.ask_again_ns = std::min(choice.ask_again_ns, slots_[i].NextBeginNs(gpu.token_begin_ns));
    }
    return choice;
  }

 private:
  // What is left of a slot beyond an overrun comes back bit by bit as the window moves on; a token for each bit would never end.
  static int64_t ShortestNs(const StaticSlot& slot) { return std::min(kQuantumMinNs, slot.length_ns / 2 + 1); }

  // What it used within the last second beyond its slots of that second.
  int64_t OverrunNs(const GpuView& gpu, size_t i) const {
    const int64_t slots_ns = slots_[i].length_ns * (kSecondNs / kSlotPeriodNs);
    return std::max<int64_t>(0, gpu.ledger->UsedNs(slotted_[i]->id, Window::kOneSecond) - slots_ns);
  }

  std::vector<SlotShare> shares_;
  std::vector<StaticSlot> slots_;
  std::vector<const VgpuView*> slotted_;
};

}  // namespace

std::unique_ptr<Policy> MakeFixedPolicy() { return std::make_unique<FixedPolicy>(); }

}  // namespace tessera

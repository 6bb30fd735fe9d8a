#include "scheduler/vgpu_spec.h"

namespace tessera {

std::string_view PriorityName(Priority priority) {
  switch (priority) {
    case Priority::kProtected: return "protected";
    case Priority::kNormal: return "normal";
    case Priority::kBestEffort: return "best-effort";
  }
  return "unknown";
}

bool ParsePriority(std::string_view word, Priority* priority) {
  for (const Priority each : {Priority::kProtected, Priority::kNormal, Priority::kBestEffort}) {
    if (word == PriorityName(each)) {
      *priority = each;
      return true;
    }
  }
  return false;
}

std::string_view OverrunName(Overrun overrun) { return overrun == Overrun::kEnd ? "end" : "bill"; }

bool ParseOverrun(std::string_view word, Overrun* overrun) {
  *overrun = word == "end" ? Overrun::kEnd : Overrun::kBill;
  return word == "end" || word == "bill";
}

}  // namespace tessera

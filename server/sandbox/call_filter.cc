#include "server/sandbox/call_filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <iterator>
#include <span>
#include <vector>

#include "generated/server/call_programs.h"
#include "server/sandbox/call_lists.h"

namespace tessera {
namespace {

Result<UniqueFd> Install(std::span<const sock_filter> steps, unsigned long flags) {
  std::vector<sock_filter> own(steps.begin(), steps.end());
  for (sock_filter& step : own) {
    if (step.k == kOwnProcess) step.k = static_cast<uint32_t>(getpid());
  }
  sock_fprog program{static_cast<unsigned short>(own.size()), own.data()};
  // SPEC_ALLOW: without it older kernels make all of the process slower against an attack on itself.
  const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
  if (result < 0) return Status::FromErrno("cannot install a filter of system calls", errno);
  return UniqueFd(result > 0 ? static_cast<int>(result) : -1);
}

}  // namespace

Status FilterCalls(CallFilter kind) {
  switch (kind) {
    case CallFilter::kAllowList: return Install(kAllowListProgram, 0).status();
    case CallFilter::kRefusingList: return Install(kRefusingListProgram, 0).status();
    case CallFilter::kService: return Install(kServiceProgram, 0).status();
    case CallFilter::kCarrier: return Install(kCarrierProgram, 0).status();
    case CallFilter::kBroker: return Install(kBrokerProgram, 0).status();
    case CallFilter::kNetwork: return Install(kNetworkProgram, 0).status();
  }
  return Status(StatusCode::kInternal, "no such filter of system calls");
}

uint64_t CallFilterVersion() {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const sock_filter& step : kAllowListProgram) {
    for (const uint32_t word : {uint32_t{step.code}, uint32_t{step.jt}, uint32_t{step.jf}, step.k})
      hash = (hash ^ word) * 0x100000001b3;
  }
  return hash;
}

Result<UniqueFd> WatchCalls(CallFilter kind) {
  std::span<const sock_filter> program = kWatchProgram;
  if (kind == CallFilter::kService) program = kServiceWatchProgram;
  if (kind == CallFilter::kBroker) program = kBrokerWatchProgram;
  if (kind == CallFilter::kCarrier) program = kCarrierWatchProgram;
  if (kind == CallFilter::kNetwork) program = kNetworkWatchProgram;
  return Install(program, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

std::string CallName(int number) {
  for (const auto& list : {AllowedCalls(), LookedAtCalls(), RefusedCalls()}) {
    for (const KnownCall& call : list) {
      if (call.number == number) return call.name;
    }
  }
  const bool named = number >= 0 && number < static_cast<int>(std::size(kCallNames)) && *kCallNames[number] != '\0';
  return named ? kCallNames[number] : "system call " + std::to_string(number);
}

}  // namespace tessera

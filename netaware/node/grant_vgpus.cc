#include "netaware/node/grant_vgpus.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "protocol/base/log.h"

namespace tessera {
namespace {

constexpr std::string_view kPrefix = "grant-";
constexpr size_t kGrantDigits = 32;

// The form that NVIDIA's tools print.
std::string UuidText(const std::array<std::byte, 16>& uuid) {
  std::string text = "GPU";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", std::to_integer<unsigned>(uuid[i]));
  }
  return text;
}

const char* PriorityText(TicketPriority priority) {
  switch (priority) {
    case TicketPriority::kProtected: return "protected";
    case TicketPriority::kBestEffort: return "best-effort";
    default: return "normal";
  }
}

bool HasPart(const LedgerGrant& grant) { return grant.state != LedgerGrant::State::kReleased; }

}  // namespace

std::string GrantVgpuName(const Ticket::Grant& grant, size_t place) {
  return fmt::format("{}{}-{}", kPrefix, GrantText(grant), place);
}

std::optional<Ticket::Grant> GrantOfVgpu(std::string_view name) {
  if (!name.starts_with(kPrefix) || name.size() != kPrefix.size() + kGrantDigits + 2) return std::nullopt;
  const char place = name.back();
  if (name[name.size() - 2] != '-' || place < '0' || place >= static_cast<char>('0' + Ticket::kVgpusMax)) return std::nullopt;
  return ParseGrant(name.substr(kPrefix.size(), kGrantDigits));
}

std::string GrantVgpuNames(const Ticket& ticket) {
  std::string names;
  for (size_t place = 0; place < ticket.vgpus.size(); ++place) {
    names += (place == 0 ? "" : "+") + GrantVgpuName(ticket.grant, place);
  }
  return names;
}

WantedVgpu WantedOf(const Ticket& ticket, size_t place) {
  constexpr double kWhole = TicketVgpu::kWhole;
  const TicketVgpu& vgpu = ticket.vgpus[place];
  return {.name = GrantVgpuName(ticket.grant, place),
          .gpu = UuidText(vgpu.gpu),
          .request = vgpu.request / kWhole,
          .limit = vgpu.limit / kWhole,
          .memory_bytes = vgpu.memory_bytes,
          .processes = ticket.processes,
          .isolation = vgpu.isolation == TicketIsolation::kPacked ? "packed" : "strict",
          .priority = PriorityText(vgpu.priority),
          .owner = ticket.holder};
}

void GrantVgpus::Take(ServerVgpus list) {
  is_connected_ = true;
  there_.clear();
  for (const ServerVgpu& vgpu : list.vgpus) {
    if (vgpu.is_of_api && GrantOfVgpu(vgpu.name)) there_[vgpu.name] = {vgpu.gpu, vgpu.is_in_force};
  }
  list_ = std::move(list);
  next_ms_ = 0;
}

void GrantVgpus::Lost() {
  is_connected_ = false;
  calls_.clear();
  there_.clear();
  next_ms_ = kNever;
}

void GrantVgpus::CallDone(const std::string& name, const Status& status, int64_t now_ms) {
  const auto call = calls_.find(name);
  if (call == calls_.end()) return;  // the call was on a connection that has ended
  if (status.ok()) {
    if (call->second.kind == Call::Kind::kCreate) {
      there_[name] = {call->second.vgpu.gpu, true};
    } else {
      there_.erase(name);
      ends_[call->second.vgpu.gpu] = now_ms + kEndsMs;
    }
    failed_.erase(name);
  } else {
    const bool was_asked = status.code() != StatusCode::kUnavailable && !IsInTheWay(call->second, now_ms);
    if (was_asked) {
      LogWarning("the broker does not {} the vGPU {} of a grant: {}",
                 call->second.kind == Call::Kind::kCreate ? "make" : "delete", name, status.message());
    }
    failed_[name] = {was_asked ? status : Status::Ok(), now_ms + (was_asked ? kAgainMs : kBusyAgainMs)};
  }
  calls_.erase(call);
  next_ms_ = 0;
}

bool GrantVgpus::IsInTheWay(const Call& call, int64_t now_ms) {
  std::erase_if(ends_, [&](const auto& each) { return each.second <= now_ms; });
  return call.kind == Call::Kind::kCreate && ends_.contains(call.vgpu.gpu);
}

bool GrantVgpus::MayCall(const std::string& name, int64_t now_ms) {
  if (calls_.contains(name)) return false;
  const auto failed = failed_.find(name);
  if (failed == failed_.end() || failed->second.again_ms <= now_ms) return true;
  next_ms_ = std::min(next_ms_, failed->second.again_ms);
  return false;
}

bool GrantVgpus::MayCreate(int64_t now_ms) {
  const bool deletes = std::ranges::any_of(calls_, [](const auto& call) { return call.second.kind == Call::Kind::kDelete; });
  deletes_since_ms_ = deletes ? std::min(deletes_since_ms_, now_ms) : kNever;
  if (!deletes || now_ms - deletes_since_ms_ >= kBusyAgainMs) return true;
  next_ms_ = std::min(next_ms_, deletes_since_ms_ + kBusyAgainMs);
  return false;
}

std::vector<GrantVgpus::Call> GrantVgpus::Turn(const std::map<Ticket::Grant, LedgerGrant>& grants, int64_t now_ms) {
  std::vector<Call> calls;
  if (now_ms < next_ms_) return calls;
  next_ms_ = kNever;
  if (!is_connected_) return calls;
  std::map<std::string, WantedVgpu, std::less<>> wanted;
  for (const auto& [id, grant] : grants) {
    if (!HasPart(grant)) continue;
    for (size_t place = 0; place < grant.ticket.vgpus.size(); ++place) {
      WantedVgpu vgpu = WantedOf(grant.ticket, place);
      wanted.emplace(vgpu.name, std::move(vgpu));
    }
  }
  std::erase_if(failed_, [&](const auto& each) { return !wanted.contains(each.first) && !there_.contains(each.first); });
  for (const auto& [name, made] : there_) {
    const auto want = wanted.find(name);
    if (want != wanted.end() && made.Is(want->second)) continue;
    if (MayCall(name, now_ms)) calls.push_back({Call::Kind::kDelete, {.name = name, .gpu = made.gpu}});
  }
  for (const Call& call : calls) calls_[call.vgpu.name] = call;
  if (!MayCreate(now_ms)) return calls;
  for (auto& [name, vgpu] : wanted) {
    if (there_.contains(name) || !MayCall(name, now_ms)) continue;
    calls.push_back({Call::Kind::kCreate, std::move(vgpu)});
    calls_[name] = calls.back();
  }
  return calls;
}

void GrantVgpus::TryAnew(const Ticket& ticket) {
  for (size_t place = 0; place < ticket.vgpus.size(); ++place) failed_.erase(GrantVgpuName(ticket.grant, place));
  next_ms_ = 0;
}

bool GrantVgpus::IsThere(const Ticket& ticket) const {
  for (size_t place = 0; place < ticket.vgpus.size(); ++place) {
    const WantedVgpu wanted = WantedOf(ticket, place);
    const auto there = there_.find(wanted.name);
    if (there == there_.end() || !there->second.Is(wanted) || calls_.contains(wanted.name)) return false;
  }
  return true;
}

bool GrantVgpus::IsAnyThere(const Ticket::Grant& grant) const {
  for (size_t place = 0; place < Ticket::kVgpusMax; ++place) {
    const std::string name = GrantVgpuName(grant, place);
    if (there_.contains(name) || calls_.contains(name)) return true;
  }
  return false;
}

Status GrantVgpus::Refusal(const Ticket& ticket) const {
  for (size_t place = 0; place < ticket.vgpus.size(); ++place) {
    const auto failed = failed_.find(GrantVgpuName(ticket.grant, place));
    if (failed != failed_.end() && !failed->second.why.ok()) return failed->second.why;
  }
  return Status::Ok();
}

}  // namespace tessera

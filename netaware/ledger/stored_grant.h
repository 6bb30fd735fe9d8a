// The stored form of a ledger's grants and epoch. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "netaware/ledger/ledger_grant.h"
#include "protocol/base/status.h"

namespace tessera {

inline constexpr std::string_view kGrantKeys = "grants/";
inline constexpr std::string_view kEpochKey = "epoch";

// "grants/" and 32 digits.
std::string KeyOf(const Ticket::Grant& grant);

std::string StoredForm(const LedgerGrant& grant);
std::string StoredForm(uint64_t epoch);
// kProtocolViolation: the value is damaged.
Result<LedgerGrant> StoredGrant(std::string_view value);
Result<uint64_t> StoredEpoch(std::string_view value);

}  // namespace tessera

// The checks of `tessera doctor` about a pool. A check changes nothing, and returns its findings. There are none if this user
// has no file of settings, no placer and no ticket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/cli/host_checks.h"
#include "netaware/job/job_config.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Checks the existing files of settings, and adds findings about their keys or their errors. Without an error it fills in
// `*config` and returns true.
bool CheckConfig(JobConfig* config, std::vector<Finding>* findings);

// Checks the placer: the source of its address, and the answer that tessera-admin gets from it within 15 s. `said`: the address
// from --placer. `*url`: the placer's address; empty: there is none. `passed_by`: a server is named, so jobs do not use the
// placer.
std::vector<Finding> CheckPlacer(const std::string& said, const JobConfig& config, const LinkOptions& link, bool passed_by,
                                 std::string* url);

// Checks the ticket files of TESSERA_TICKET, `files`: they are readable, their holder, and their end. `now_ms`: the time, in ms
// since 1970.
std::vector<Finding> CheckTickets(std::string_view files, int64_t now_ms);

}  // namespace tessera

// What `tessera doctor` looks at of a pool. Each check looks, changes nothing, and gives its findings; none where this user has
// nothing of a pool: no file of settings, no placer, no ticket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "netaware/cli/host_checks.h"
#include "netaware/job/job_config.h"
#include "protocol/link/link_options.h"

namespace tessera {

// Files of settings that are there: adds what they have, or what is wrong. Fills in `*config` and returns true where nothing is.
bool CheckConfig(JobConfig* config, std::vector<Finding>* findings);

// Where the address of a placer is from, and what tessera-admin hears there, within 15 s. `said`: of --placer. `*url`: the
// address; empty: there is none. `passed_by`: a server is named, so that jobs do not ask.
std::vector<Finding> CheckPlacer(const std::string& said, const JobConfig& config, const LinkOptions& link, bool passed_by,
                                 std::string* url);

// Of the tickets of TESSERA_TICKET, `files`: whether they can be read, whose they are, until when they last at `now_ms` (since
// 1970).
std::vector<Finding> CheckTickets(std::string_view files, int64_t now_ms);

}  // namespace tessera

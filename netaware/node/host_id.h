// The default name of a server in a pool.
#pragma once

#include <string>

namespace tessera {

// The id of a server at the socket `server_path` of a host with this name and machine id: the name, "-" and 8 digits. Two hosts
// of one name get different ids, and so do two servers of one host; the same server always gets the same id. Pure.
std::string HostId(const std::string& host, const std::string& machine_id, const std::string& server_path);
// The id of a server on this host.
std::string HostIdHere(const std::string& server_path);
// True if `text` can be a host id: 1 to 63 printable characters.
bool IsHostId(const std::string& text);

}  // namespace tessera

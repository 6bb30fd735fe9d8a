// How a server is called in a pool when nobody says.
#pragma once

#include <string>

namespace tessera {

// Of a host of this name and machine id, with a server at this socket: the name, "-" and 8 digits. Two hosts of one name, and two
// servers of one host, have different ones; the same server has the same again. Pure.
std::string HostId(const std::string& host, const std::string& machine_id, const std::string& server_path);
// Of this host.
std::string HostIdHere(const std::string& server_path);
// Whether it can be one: 1 to 63 characters that can be printed.
bool IsHostId(const std::string& text);

}  // namespace tessera
